// Poisons dead memory, so that reads before the first write or after the last reader are detected.
#pragma once

#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// These functions are called when a plan is loaded: they create its counters of readers, and find the memory that each
// actor poisons.
//
//   before     the first call that writes a register's slot, or a call that overwrites a whole fixed address range
//              without reading it: the old bytes are dead
//   after      the last call of the last reader of a register's slot, or of a fixed address range: no later call may
//              read it
//
// Bytes that registers share are in use by one of them at a time, so an actor that acts too early or too late
// destroys live data.
void count_readers(LoadedPlan& loaded);
void find_poison_ranges(LoadedPlan& loaded, ActorState& actor);

// Poison the memory that is due before and after a call of the act.
void poison_before(const ActorState& actor, int call);
void poison_after(const ActorState& actor, int call);

}  // namespace karez::runtime
