// Control edges that keep a launch from writing a variable before it can no longer fail by its data.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// True for what may end a launch by its data: an input that a source makes, an index outside its table, a kernel of the
// user's.
bool may_fail(const Node& node);

// Every node that may fail comes before every write of a variable that does not follow it, unless it reads what some
// write makes, or acts for each micro-batch while micro-batches read what is written. With `check_nan` every call may
// fail. A write also comes after that node on the other devices of its mesh: where it follows no collective that
// follows the node, the first such one along each axis, if there is one, comes before it.
void gate_writes(Graph& graph, bool check_nan);

}  // namespace karez::passes
