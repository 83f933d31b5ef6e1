// Verifies that bytes shared by two registers, or by a register and a value inside an actor, are never in use by both
// at once, however many launches are active.
#pragma once

#include <cstdint>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

// Throws, with both names and the bytes, if two may be in use at once. It derives this from the plan's tokens,
// independent of the pass that placed the values. The plan must be valid otherwise. Excluded: versions of a variable,
// which overwrite each other, and values of one actor, since its calls run in order.
void verify_sharing(const Plan& plan, const ById<ActorId, std::int64_t>& acts_per_launch);

}  // namespace karez::plan
