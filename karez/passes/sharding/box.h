// box: inserts the steps of transition trees as nodes, wherever a consumer requires an operand in a layout that differs
// from the layout of the operand.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Call after `shard`, which gives every value a layout. `operand_layouts` says in which layout each node requires each
// operand. Graph outputs without a layout are required in Broadcast, and updated variables in their stored layout. The
// new nodes are `box {axis, from, move, to}`.
Graph box(const Graph& graph, const OpTable& ops, const OperandLayouts& operand_layouts, const CostTable& costs);

}  // namespace karez::passes
