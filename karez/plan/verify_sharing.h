// Bytes that two registers, or a register and a value inside an actor, both lie in: never in use at once, however many
// launches are under way.
#pragma once

#include <cstdint>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

// Throws (both names, the bytes, what is missing) where two may meet. It asks the plan's tokens anew and knows nothing
// of the pass that placed them. The plan must hold together otherwise. Left out: versions of a variable, which replace
// each other where they lie, and values of one actor, whose calls run in their order.
void verify_sharing(const Plan& plan, const ById<ActorId, std::int64_t>& acts_per_launch);

}  // namespace karez::plan
