// Poisons dead memory, so that a read before the first write or after the last reader is detected.
#pragma once

#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// These functions are called when a plan is loaded. They create the plan's counters of readers, and find the memory
// that each actor poisons:
//
//   before     the first call that writes a slot of a register, and before a call that overwrites a fixed address range
//              completely without reading it, because the old bytes are dead
//   after      the last call that reads a slot of a register or a fixed address range, because later calls must not
//              read it
//
// If registers share bytes, only one of them uses the bytes at a time. So an actor that acts too early or too late
// poisons live data.
void count_readers(LoadedPlan& loaded);
void find_poison_ranges(LoadedPlan& loaded, ActorState& actor);

// Poison the memory that is due before or after this call of the act.
void poison_before(const ActorState& actor, int call);
void poison_after(const ActorState& actor, int call);

}  // namespace karez::runtime
