// Pass unroll: replaces each scan by a copy of its region for each trip.
#pragma once

#include "karez/graph/op.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Returns a graph without regions. If another scan stacked a sequence, its rows are used directly, without the stack. A
// random node gets a different site in each trip.
Graph unroll(const Graph& graph, const OpTable& ops);

}  // namespace karez::passes
