// For tests of order: finds nodes of a graph by op.
#pragma once

#include <string_view>

#include "karez/graph/graph.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The node number `nth` with this op, counted from 0; an invalid id beyond the last node if there is none.
inline NodeId find_node(const Graph& graph, std::string_view op, int nth = 0) {
  for (NodeId n : graph.nodes.ids())
    if (graph.nodes[n].op->name == op && nth-- == 0) return n;
  return NodeId(graph.nodes.size());
}

}  // namespace karez::passes
