// Control edges that delay a launch's writes to variables until the launch can no longer fail because of its data.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// True for nodes that may make a launch fail because of its data: an input from a source, an op with indices that may
// be outside of a table, or a user's kernel.
bool may_fail(const Node& node);

// Adds a control edge from every node that may fail to every write of a variable that does not depend on the node.
// There are two exceptions: nodes that depend on a write, and nodes that act for each micro-batch if micro-batches read
// the written value. If `check_nan` is true, every call may fail.
//
// A write must also wait for the node on the other devices of its mesh, since the node may fail there. If the write
// does not already depend on a collective that depends on the node, edges are added to the write from the first such
// collective along each axis.
void gate_writes(Graph& graph, bool check_nan);

}  // namespace karez::passes
