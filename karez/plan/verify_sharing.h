// Verifies that values which share bytes never use them at the same time, however many launches are active. A value is
// a register or belongs to one actor.
#pragma once

#include <cstdint>

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

// Throws if two values may use the same bytes at the same time; the error names both values and the bytes. The check
// uses only the plan's tokens and is independent of the pass that placed the values. The plan must be valid otherwise.
// Two kinds of values may always share bytes: versions of a variable, which overwrite each other, and values of the
// same actor, whose calls run in order.
void verify_sharing(const Plan& plan, const ById<ActorId, std::int64_t>& acts_per_launch);

}  // namespace karez::plan
