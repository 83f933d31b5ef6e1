// One worker's collectives under way: at its turn one starts, arrivals advance it, and its end passes the turn on.
#pragma once

#include "karez/runtime/loaded_plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// The actor has begun at its turn. True: it is over already. Throws what its links or its reduce function throw.
bool begin_collective(WorkerPlan& worker_plan, ActorState& actor);

// Something has happened on its links. True: the collective that runs is over; nothing may run, then it is false.
bool advance_collective(WorkerPlan& worker_plan, SequenceState& sequence);

// The one that runs ended, or was given up: returns the actor whose turn it is now.
ActorState& advance_sequence(SequenceState& sequence);

// A member broke, so that the others would wait in vain: tells every worker that holds some, once.
void abandon_collectives(LoadedPlan& loaded);

// Worker 0: every launch under way ends without working any more, with this error.
void abort_launches(LaunchAbort& launch_abort);

}  // namespace karez::runtime
