// Rewrite, the class with which passes that add, remove or move nodes build a new graph from an old one.
#pragma once

#include <vector>

#include "karez/graph/graph.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Copies nodes of `old_graph` one by one into a new graph and translates value ids. For each node, the pass decides
// whether to keep it, to replace it or to add other nodes.
class Rewrite {
 public:
  explicit Rewrite(const Graph& old_graph);
  // Moves attributes, texts and regions of kept nodes out of the old graph instead of copying them. The caller may
  // still read all other fields, and must keep the graph until `finish`.
  struct MoveNodes {};
  Rewrite(Graph& old_graph, MoveNodes);

  // The new id of an old value; set by keep() or map().
  ValueId at(ValueId old) const { return values_[old]; }
  void map(ValueId old, ValueId new_value) { values_[old] = new_value; }
  NodeId node_at(NodeId old) const { return nodes_[old]; }

  NodeId keep(NodeId old);                               // copies the node and translates its inputs
  NodeId keep(NodeId old, std::vector<ValueId> inputs);  // copies the node with these (new) inputs
  // Adds a node with outputs of the given types and the path and source line of `source`.
  NodeId add(const OpDef* op, std::vector<ValueId> inputs, Attrs attrs, std::span<const TensorType> types, int mesh,
             NodeId source);
  // Translates control edges, variables and outputs, and returns the new graph. A variable's `read` becomes invalid if
  // its value was not kept.
  Graph finish();

  Graph& graph() { return new_graph_; }
  const Graph& graph() const { return new_graph_; }

 private:
  Node copy_or_move(NodeId old);

  const Graph& old_graph_;
  Graph* moved_graph_ = nullptr;  // the old graph if its nodes are moved
  Graph new_graph_;
  ById<ValueId, ValueId> values_;
  ById<NodeId, NodeId> nodes_;
};

}  // namespace karez::passes
