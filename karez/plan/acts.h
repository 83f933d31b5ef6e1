// The numbers of acts and messages in one launch, from the balance equations of the plan's ports.
#pragma once

#include <cstdint>
#include <vector>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

// Returns the number of acts of each actor in a launch. Three rules determine it: a start register is filled once, a
// done register is read once, and a port of period k advances on every k-th act.
// Throws if two paths to an actor give different numbers, if a number is not an integer, or if an actor is not
// connected to the session.
ById<ActorId, std::int64_t> acts_per_launch(const Plan& plan);

// Counts both kinds of messages, including those from and to the session: each fill of a register causes one `filled`
// and one `returned` message per consumer.
std::int64_t messages_per_launch(const Plan& plan);

}  // namespace karez::plan
