// The work of acts, without the protocol: running kernels, starting asynchronous kernels, reading inputs and fetching
// results.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "karez/runtime/event_ring.h"
#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Sets the act's addresses to the slots that its ports hold, and the slots of results to the memory of the launch. If
// poisoning is on and `poison` is true, also poisons the memory that the act will fill. Call it after Ports::begin.
// `targets`: LaunchRecord::targets; may be empty if the actor computes no result in place.
void prepare_memory(ActorState& actor, std::span<std::byte* const> targets, bool poison = true);

// Does the work of an act; does nothing for a collective. While a profile is on, records the calls in `events`. Returns
// true if the work is over, and false if an asynchronous kernel or a slow read will post the actor's `completion` to
// `box` later. Exceptions that the work throws propagate to the caller.
bool run_body(WorkerPlan& worker_plan, ActorState& actor, Mailbox& box, EventRing& events);

// Returns the user's source line for an error in the current act: the line of the call that ran last, or of the input,
// output or collective.
std::string where_of(const ActorState& actor);

// Returns "a3 'compute.1' of launch 7 (matmul at net.cc:12)". May be called from any thread while the act runs.
std::string name_of_act(const ActorState& actor);

}  // namespace karez::runtime
