// shard for programs that compute some nodes twice (see recompute.h): copies do not influence the layouts.
#pragma once

#include <functional>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {

// Layouts determine the order of sums. If the time and transfers of copies counted, the layouts could differ from those
// without recomputation, and with them the last bits of the losses. Cost and bound are those of the program without
// copies. `fuses` returns the values of that program that fuse (see fused_values.h).
using FindFusedValues = std::function<FusedValues(const Graph&)>;
ShardedGraph shard_copies(Graph graph, const CostTable& costs, const FindFusedValues& fuses = nullptr);

}  // namespace karez::passes
