// Which nodes of a graph run in a plan's set-up, because they depend on constants alone, and how they are laid.
#pragma once

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {

// Marks (Node::setup) what `hoist` will move to the set-up, so that prices leave it out, and lays its values. Nothing
// travels in a set-up, so each device makes the whole value, and every reader's part of it is a window. What reads a
// value that the user had split is not marked: it may have to travel first. Before `shard`.
Graph with_setup_nodes(Graph graph, const KernelCatalog& catalog);

// After `shard`: a value of the set-up that all take in one split layout is made in it, part by part. `before` is the
// graph without marks, whose fixed layouts stay.
void split_setup_nodes(ShardedGraph& laid, const Graph& before);

}  // namespace karez::passes
