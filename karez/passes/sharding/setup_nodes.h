// Finds the nodes that run in a plan's set-up, because they depend only on constants, and chooses their layouts.
#pragma once

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {

// Marks (Node::setup) the nodes that `hoist` will move to the set-up, so that costs leave them out, and sets the
// layouts of their values. A set-up transfers nothing, so each device computes the full value, and every reader's part
// of it is a window. Readers of a value that the user split are not marked, because the value may need a transfer
// first. Call before `shard`.
Graph with_setup_nodes(Graph graph, const KernelCatalog& catalog);

// Call after `shard`. If all readers require a value of the set-up in the same split layout, each device computes only
// its part. `unmarked` is the graph without marks; its fixed layouts are kept.
void split_setup_nodes(ShardedGraph& sharded, const Graph& unmarked);

}  // namespace karez::passes
