// The part of the plan verifier that checks the order of collectives.
#pragma once

#include "karez/plan/plan.h"

namespace karez::plan {

// Throws if two actors of a device have the same turn of a communicator, or if the members of a collective disagree.
void verify_sequences(const Plan& plan);

}  // namespace karez::plan
