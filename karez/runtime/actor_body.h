// What an act does besides the protocol: kernels, kernels that finish later, reading a source, fetching a result.
#pragma once

#include <string>

#include "karez/runtime/loaded_plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Points the act's addresses at the slots its ports hold, and poisons (where that was asked for) the memory it is to
// fill. After `begin`.
void prepare_memory(ActorState& actor, bool poisons = true);

// Does the work, all but a collective's. True when it is over; a kernel that finishes later, or a slow read, posts the
// actor's `note` to `box`. Throws what the work throws.
bool run_body(WorkerPlan& worker_plan, ActorState& actor, Mailbox& box);

// The user's line for an error of this act: of the call that ran, the input, the output or the collective.
std::string where_of(const ActorState& actor);

// "a3 'compute.1' of launch 7 (matmul at net.cc:12)". From any thread while the act runs.
std::string name_of_act(const ActorState& actor);

}  // namespace karez::runtime
