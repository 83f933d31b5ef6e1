// Prepares the collectives of a plan: a CollectiveRun for each actor, and a sequence for each communicator and device.
#pragma once

#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Creates the CollectiveRun of an actor on the endpoint of its member.
void prepare_collective(LoadedPlan& loaded, ActorState& actor);

// Call after all collectives have been prepared: creates the sequences and lets their links notify the workers.
void make_sequences(LoadedPlan& loaded);

}  // namespace karez::runtime
