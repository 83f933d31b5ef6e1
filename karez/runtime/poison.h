// Poison for dead memory: who reads what nobody wrote, or reads after the last reader, sees it.
#pragma once

#include "karez/runtime/loaded_plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// A plan's counters of readers, and what each of its actors poisons. When a plan is loaded.
//
//   before     the first call that writes a register's slot, or a call that writes a fixed place whole and does not
//   read it: the old is gone behind     the last call of the last reader of a register's slot, or of a fixed place:
//   nobody may find it
//
// Bytes that registers share with each other are in use by one of them at a time, so whoever comes too early or too
// late destroys what is live.
void count_readers(LoadedPlan& loaded);
void find_poison_ranges(LoadedPlan& loaded, ActorState& actor);

// What is due before a call of the act, and behind it.
void poison_before(const ActorState& actor, int call);
void poison_after(const ActorState& actor, int call);

}  // namespace karez::runtime
