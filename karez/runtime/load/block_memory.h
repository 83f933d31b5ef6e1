// Allocates the memory of a plan's blocks, which is owned by the plan, by an arena, or by a variable of the session.
#pragma once

#include <map>
#include <memory>

#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/namespace.h"
#include "karez/runtime/variable_store.h"

namespace karez::runtime {

struct MemoryOptions {
  bool poison = false;
  bool order_arena_plans = true;  // order launches of plans that share an arena
};

// Sets the addresses of all blocks. Returns the variables that the session does not have yet; the caller adds them once
// the plan is loaded. A variable with a different layout or size is an error.
using NewVariables = std::map<VariableStore::Key, std::shared_ptr<Variable>>;
NewVariables allocate_blocks(LoadedPlan& loaded, VariableStore& variables, const MemoryOptions& options);

// Makes loaded.slot_addresses for two kinds of registers: external ones, whose addresses each launch sets, and those
// whose consumers may read a batch in the memory of its source, without a copy to the slot, which are registers that
// exactly one operand of an input actor fills.
void find_slot_addresses(LoadedPlan& loaded);

// Sets `cell` to the operand's address, and records in the actor how the address changes with the slot of the operand's
// port.
void locate(LoadedPlan& loaded, ActorState& actor, const Operand& operand, std::byte** cell);

}  // namespace karez::runtime
