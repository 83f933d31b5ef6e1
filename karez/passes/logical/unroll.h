// Pass unroll: replaces each scan with one copy of its region for each trip.
#pragma once

#include "karez/graph/op.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Returns a graph without regions. If the sequence that a scan reads is the stack of another scan, the rows of that
// scan are used directly, without the stack. A random node gets a different site in each trip.
Graph unroll(const Graph& graph, const OpTable& ops);

}  // namespace karez::passes
