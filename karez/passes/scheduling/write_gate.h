// Control edges that delay a launch's writes to variables until the launch can no longer fail because of its data.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// True for nodes that may make a launch fail because of its data: an input from a source, an op with indices that may
// be outside of a table, or a user's kernel.
bool may_fail(const Node& node);

// Puts every node that may fail before every write of a variable that does not depend on the node, unless the node
// reads the result of a write, or acts for each micro-batch while micro-batches read the written value. With
// `check_nan` every call may fail. A write also waits for the node on the other devices of its mesh: unless the write
// already depends on a collective that depends on the node, the first such collective along each axis, if any, comes
// before the write.
void gate_writes(Graph& graph, bool check_nan);

}  // namespace karez::passes
