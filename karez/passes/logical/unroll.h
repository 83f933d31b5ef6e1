// unroll: a scan's region once for each trip, in the scan's place.
#pragma once

#include "karez/graph/op.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Graph of no regions. Rows of a sequence that another scan stacked are taken as they were before. A node's site of
// random numbers becomes one of its trip.
Graph unroll(const Graph& graph, const OpTable& ops);

}  // namespace karez::passes
