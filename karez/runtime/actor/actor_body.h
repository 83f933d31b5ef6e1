// The work of acts, without the protocol: kernels, asynchronous kernels, reading a source, fetching a result.
#pragma once

#include <string>

#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Points the act's addresses at the slots that its ports hold, and poisons the memory that it will fill, if poisoning
// is on. Call it after `begin`.
void prepare_memory(ActorState& actor, bool poison = true);

// Does the work of an act, except for a collective. Returns true if the work is over; an asynchronous kernel or a slow
// read posts the actor's `completion` to `box` later. Throws what the work throws.
bool run_body(WorkerPlan& worker_plan, ActorState& actor, Mailbox& box);

// Returns the user's source line for an error of this act: the line of the call that ran, of the input, of the output
// or of the collective.
std::string where_of(const ActorState& actor);

// Returns "a3 'compute.1' of launch 7 (matmul at net.cc:12)". May be called from any thread while the act runs.
std::string name_of_act(const ActorState& actor);

}  // namespace karez::runtime
