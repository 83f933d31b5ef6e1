// A helper for tests of the order pass, which finds nodes of a graph by op.
#pragma once

#include <string_view>

#include "karez/graph/graph.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Returns the `nth` node with this op, counted from 0, or an id beyond the last node if there is none.
inline NodeId find_node(const Graph& graph, std::string_view op, int nth = 0) {
  for (NodeId n : graph.nodes.ids())
    if (graph.nodes[n].op->name == op && nth-- == 0) return n;
  return NodeId(graph.nodes.size());
}

}  // namespace karez::passes
