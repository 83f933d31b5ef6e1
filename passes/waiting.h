// Which nodes wait for which: along data and control edges.
#pragma once

#include <vector>

#include "passes/compilation.h"

namespace karez::passes {

struct Waiting {
  ById<NodeId, std::vector<NodeId>> next;  // that wait for it, once for each edge
  ById<NodeId, int> edges;                 // to those that it waits for itself

  explicit Waiting(const Graph& graph) : next(graph.nodes.size()), edges(graph.nodes.size(), 0) {
    for (NodeId n : graph.nodes.ids()) {
      for (ValueId in : graph.node(n).inputs) edge(graph.value(in).producer, n);
      for (NodeId before : graph.node(n).after) edge(before, n);
    }
  }

 private:
  void edge(NodeId before, NodeId node) {
    next[before].push_back(node);
    ++edges[node];
  }
};

}  // namespace karez::passes
