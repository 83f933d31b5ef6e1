// The dependencies between nodes along data and control edges.
#pragma once

#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

struct NodeDependencies {
  ById<NodeId, std::vector<NodeId>> successors;  // nodes that wait for it, once for each edge
  ById<NodeId, int> in_degree;                   // number of edges from nodes that it waits for

  explicit NodeDependencies(const Graph& graph) : successors(graph.nodes.size()), in_degree(graph.nodes.size(), 0) {
    for (NodeId n : graph.nodes.ids()) {
      for (ValueId in : graph.node(n).inputs) edge(graph.value(in).producer, n);
      for (NodeId before : graph.node(n).after) edge(before, n);
    }
  }

  // All nodes, each after the nodes that it waits for.
  std::vector<NodeId> topological_order() const {
    ById<NodeId, int> left = in_degree;
    std::vector<NodeId> order;
    for (NodeId n : in_degree.ids())
      if (in_degree[n] == 0) order.push_back(n);
    for (std::size_t at = 0; at < order.size(); ++at)
      for (NodeId after : successors[order[at]])
        if (--left[after] == 0) order.push_back(after);
    return order;
  }

 private:
  void edge(NodeId before, NodeId node) {
    successors[before].push_back(node);
    ++in_degree[node];
  }
};

}  // namespace karez::passes
