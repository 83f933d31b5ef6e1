// Finds the nodes that run in a plan's setup because they depend only on constants, and chooses their layouts.
#pragma once

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {

// Marks (Node::setup) the nodes that `hoist` will move to the setup, so that predicted times do not include them, and
// sets the layouts of their values. The setup transfers nothing, so each device computes the full value, and the part
// that a reader needs is a window on it. Readers of a value that the user split are not marked, because the value may
// need a transfer first. Call before `shard`.
Graph with_setup_nodes(Graph graph, const KernelCatalog& catalog);

// Call after `shard`. If all readers require a value of the setup in the same split layout, makes each device compute
// only its part. `unmarked` is the graph without marks; its fixed layouts are kept.
void split_setup_nodes(ShardedGraph& sharded, const Graph& unmarked);

}  // namespace karez::passes
