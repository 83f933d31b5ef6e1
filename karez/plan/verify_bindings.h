// Verifies the input and fetch actors of a plan against the feeds and outputs of a launch.
#pragma once

#include "karez/plan/plan.h"

namespace karez::plan {

// Throws if an actor's slices do not match its acts, if two actors read the same input a different number of times, or
// if the fetches of an output overlap or do not cover it. The plan must be valid otherwise.
void verify_bindings(const Plan& plan, const ById<ActorId, std::int64_t>& acts_per_launch);

}  // namespace karez::plan
