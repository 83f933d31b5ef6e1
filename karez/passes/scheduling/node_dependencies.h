// The dependencies between nodes along data and control edges.
#pragma once

#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

struct NodeDependencies {
  ById<NodeId, std::vector<NodeId>> successors;  // the nodes that wait for the node, once for each edge
  ById<NodeId, int> in_degree;                   // the number of edges that lead to the node

  explicit NodeDependencies(const Graph& graph) : successors(graph.nodes.size()), in_degree(graph.nodes.size(), 0) {
    for (NodeId n : graph.nodes.ids()) {
      for (ValueId in : graph.node(n).inputs) edge(graph.value(in).producer, n);
      for (NodeId predecessor : graph.node(n).after) edge(predecessor, n);
    }
  }

  // Returns all nodes, each after the nodes for which it waits.
  std::vector<NodeId> topological_order() const {
    ById<NodeId, int> remaining = in_degree;
    std::vector<NodeId> order;
    for (NodeId n : in_degree.ids())
      if (in_degree[n] == 0) order.push_back(n);
    for (std::size_t i = 0; i < order.size(); ++i)
      for (NodeId successor : successors[order[i]])
        if (--remaining[successor] == 0) order.push_back(successor);
    return order;
  }

 private:
  void edge(NodeId predecessor, NodeId node) {
    successors[predecessor].push_back(node);
    ++in_degree[node];
  }
};

}  // namespace karez::passes
