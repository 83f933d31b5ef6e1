// Verifies that two registers, or a register and a value inside an actor, never use shared bytes at the same time,
// however many launches are active.
#pragma once

#include <cstdint>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

// Throws, with both names and the bytes, if two values may use the same bytes at the same time. This is derived from
// the plan's tokens, independent of the pass that placed the values. The other properties of the plan must be valid.
// Versions of a variable, which overwrite each other, and values of one actor, whose calls run in order, are excluded.
void verify_sharing(const Plan& plan, const ById<ActorId, std::int64_t>& acts_per_launch);

}  // namespace karez::plan
