// Which nodes wait for which: along data and control edges.
#pragma once

#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

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

  // All nodes, each after those that it waits for.
  std::vector<NodeId> producers_first() const {
    ById<NodeId, int> left = edges;
    std::vector<NodeId> order;
    for (NodeId n : edges.ids())
      if (edges[n] == 0) order.push_back(n);
    for (std::size_t at = 0; at < order.size(); ++at)
      for (NodeId after : next[order[at]])
        if (--left[after] == 0) order.push_back(after);
    return order;
  }

 private:
  void edge(NodeId before, NodeId node) {
    next[before].push_back(node);
    ++edges[node];
  }
};

}  // namespace karez::passes
