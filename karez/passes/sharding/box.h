// box: inserts transition trees as nodes of the graph where a consumer requires a layout that differs
// from its operand's.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// After `shard` every value has a layout, and `wanted` gives for each node the layout in which it takes each operand.
// Graph outputs without a layout of their own are required Broadcast, updated variables in their stored layout. New
// nodes: `box {axis, from, move, to}`.
Graph box(const Graph& graph, const OpTable& ops, const OperandLayouts& wanted, const CostTable& costs);

}  // namespace karez::passes
