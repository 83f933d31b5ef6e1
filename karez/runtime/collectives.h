// The running collectives of one worker: each starts at its turn, advances on arrivals, and passes the turn on at its
// end.
#pragma once

#include "karez/runtime/loaded_plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Starts the collective of an actor whose turn it is. Returns true if the collective is already over. Throws what its
// links or its reduce function throw.
bool begin_collective(WorkerPlan& worker_plan, ActorState& actor);

// Advances the running collective after an event on its links. Returns true if it is over; false also if none runs.
bool advance_collective(WorkerPlan& worker_plan, SequenceState& sequence);

// The running collective ended or was abandoned: returns the actor whose turn it is now.
ActorState& advance_sequence(SequenceState& sequence);

// A member failed, so the others would wait forever: notifies every worker that has members, once.
void abandon_collectives(LoadedPlan& loaded);

// Worker 0 only: every running launch completes without working, with this error.
void abort_launches(LaunchAbort& launch_abort);

}  // namespace karez::runtime
