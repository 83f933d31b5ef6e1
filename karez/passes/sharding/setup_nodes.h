// Finds the nodes that run in a plan's set-up, because they depend on constants alone, and chooses their layouts.
#pragma once

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {

// Marks (Node::setup) the nodes that `hoist` will move to the set-up, so that costs leave them out, and sets the
// layouts of their values. A set-up transfers nothing, so each device computes the whole value, and every reader's part
// of it is a window. Readers of a value that the user split are not marked, because the value may need a transfer
// first. Runs before `shard`.
Graph with_setup_nodes(Graph graph, const KernelCatalog& catalog);

// After `shard`: if all readers take a value of the set-up in one split layout, each device computes its part alone.
// `before` is the graph without marks; its fixed layouts stay.
void split_setup_nodes(ShardedGraph& laid, const Graph& before);

}  // namespace karez::passes
