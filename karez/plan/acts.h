// How often each actor acts in one launch, and how many messages that makes: the balance equations of the plan's ports.
#pragma once

#include <cstdint>
#include <vector>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

// By actor. A start register is filled once, a done register is read once; a port of period k moves on every k-th act.
// Throws where two ways to an actor disagree, where a count is no whole number, and where nothing connects an actor
// with the session.
ById<ActorId, std::int64_t> acts_per_launch(const Plan& plan);

// Both kinds, the session's own included: each fill of a register makes one `filled` and one `returned` per consumer.
std::int64_t messages_per_launch(const Plan& plan);

}  // namespace karez::plan
