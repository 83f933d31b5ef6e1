// shard: chooses a layout for every value on every mesh axis, with the least predicted step time and a certificate.
#pragma once

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/layout_assignment.h"

namespace karez::passes {

ShardedGraph shard(Graph graph, const CostTable& costs);

// The graph with its fixed layouts replaced by effective ones, see sbp::effective_layout: an axis of size 1 accepts
// every layout that a longer one would, so one program runs at every size, and is planned as if nothing were fixed on
// it.
Graph with_effective_layouts(Graph graph);

}  // namespace karez::passes
