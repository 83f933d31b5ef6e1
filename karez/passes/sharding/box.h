// box: where a value's layout is not what a consumer wants, the transition tree as nodes of the graph.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// After `shard` every value has a layout, and `wanted` says for each node which layout it takes each operand in.
// Graph outputs are wanted Broadcast, updated variables in their stored layout. New nodes: `box {axis, from, move,
// to}`.
Graph box(const Graph& graph, const OpTable& ops, const OperandLayouts& wanted, const CostTable& costs);

}  // namespace karez::passes
