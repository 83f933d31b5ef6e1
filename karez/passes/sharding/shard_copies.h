// shard for programs that compute some nodes twice (see recompute.h): every node lies as it would if it stood there
// once.
#pragma once

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {

// Layouts decide which sums are made in which order: chosen anew, with the copies' own time and transfers in the
// account, they could be others than without recomputation, and so the losses' last bits. Cost and bound are those of
// the program without copies.
ShardedGraph shard_copies(Graph graph, const CostTable& costs);

}  // namespace karez::passes
