// shard: chooses a layout for every value on every mesh axis, with the minimum predicted step time and a certificate.
#pragma once

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/layout_assignment.h"

namespace karez::passes {

// `fused` lists the values of the graph that fuse (see fused_values.h).
ShardedGraph shard(Graph graph, const CostTable& costs, const FusedValues& fused = {});

// Replaces the fixed layouts of the graph with effective layouts (sbp::effective_layout). An axis of size 1 accepts
// every layout that a longer axis accepts, so that one program runs on meshes of every size; no layout is fixed on such
// an axis.
Graph with_effective_layouts(Graph graph);

}  // namespace karez::passes
