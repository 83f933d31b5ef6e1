// The bindings of a plan: the named inputs and outputs of its launches.
#pragma once

#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Lists the bindings, each with the parts that the plan's actors read or fetch, sorted by device.
void make_bindings(LoadedPlan& loaded);

// Connects an input or fetch actor with its binding, and its operands with their parts. Does nothing for other actors.
void bind_operands(LoadedPlan& loaded, ActorState& actor);

// Connects the outputs that the actor computes in the memory of results with their results.
void bind_results(LoadedPlan& loaded, ActorState& actor);

}  // namespace karez::runtime
