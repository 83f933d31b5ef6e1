// Runs the collectives of a worker. Each starts at its turn, advances when messages arrive, and passes the turn to the
// next collective when it ends.
#pragma once

#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Starts the collective of an actor whose turn it is. Returns true if the collective is already over. Propagates
// exceptions from its links and its reduce function.
bool begin_collective(WorkerPlan& worker_plan, ActorState& actor);

// Advances the running collective after an event on its links. Returns true if the collective is over. Returns false if
// it is not over, or if no collective is running.
bool advance_collective(WorkerPlan& worker_plan, SequenceState& sequence);

// Call after the running collective has ended or been abandoned. Returns the actor whose turn it is now.
ActorState& advance_sequence(SequenceState& sequence);

// Call after a member has failed, because the other members would wait forever. Notifies every worker that has members.
// Further calls have no effect.
void abandon_collectives(LoadedPlan& loaded);

// Worker 0 only. Ends every running launch of the plans in `launch_abort` with its error. The remaining acts complete
// without running their kernels.
void abort_launches(LaunchAbort& launch_abort);

}  // namespace karez::runtime
