// shard: chooses a layout for every value on every mesh axis, with the minimum predicted step time and a certificate.
#pragma once

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/layout_assignment.h"

namespace karez::passes {

ShardedGraph shard(Graph graph, const CostTable& costs);

// Returns the graph with its fixed layouts replaced by effective ones (sbp::effective_layout): an axis of size 1
// accepts every layout that a longer axis accepts, so one program runs at every size, and no layout is fixed on such an
// axis.
Graph with_effective_layouts(Graph graph);

}  // namespace karez::passes
