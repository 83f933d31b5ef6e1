// box: inserts transition trees as nodes of the graph where a consumer requires a layout that differs from the layout
// of the operand.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// After `shard` every value has a layout, and `operand_layouts` has for each node the layout in which it requires each
// operand. Graph outputs without a layout are required in Broadcast, and updated variables in their stored layout. The
// new nodes are `box {axis, from, move, to}`.
Graph box(const Graph& graph, const OpTable& ops, const OperandLayouts& operand_layouts, const CostTable& costs);

}  // namespace karez::passes
