// The running collectives of one worker: each starts at its turn, advances when messages arrive, and passes the
// turn to the next collective when it ends.
#pragma once

#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Starts the collective of an actor whose turn it is. Returns true if the collective is already over. Propagates
// exceptions from its links and its reduce function.
bool begin_collective(WorkerPlan& worker_plan, ActorState& actor);

// Advances the running collective after an event on its links. Returns true if it is over, and false if it is not or
// if none is running.
bool advance_collective(WorkerPlan& worker_plan, SequenceState& sequence);

// Call after the running collective has ended or been abandoned. Returns the actor whose turn it is now.
ActorState& advance_sequence(SequenceState& sequence);

// Call after a member has failed, since the other members would wait forever. Notifies every worker that has members;
// further calls have no effect.
void abandon_collectives(LoadedPlan& loaded);

// Worker 0 only. Ends every running launch with launch_abort.error. The remaining acts complete without running their
// kernels.
void abort_launches(LaunchAbort& launch_abort);

}  // namespace karez::runtime
