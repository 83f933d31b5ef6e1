// The bindings of a plan: the inputs that launches feed and the outputs that they fetch, by name.
#pragma once

#include "karez/runtime/load/loaded_plan.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Lists the bindings, each with the parts that the plan's actors read or keep, by device.
void make_bindings(LoadedPlan& loaded);

// Points an input or fetch actor at its binding, and its operands at their parts. Other actors are unchanged.
void bind_operands(LoadedPlan& loaded, ActorState& actor);

}  // namespace karez::runtime
