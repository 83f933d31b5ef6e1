// Building a graph anew from an old one: what passes use that add, drop or move nodes.
#pragma once

#include <vector>

#include "karez/graph/graph.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Copies nodes of `from` one by one into `to`, translating values. A pass decides, node by node, to keep, replace or
// add.
class Rewrite {
 public:
  explicit Rewrite(const Graph& from);

  // The new name of an old value; set by keep() or map().
  ValueId at(ValueId old) const { return values_[old]; }
  void map(ValueId old, ValueId now) { values_[old] = now; }
  NodeId node_at(NodeId old) const { return nodes_[old]; }

  NodeId keep(NodeId old);                               // with its inputs translated
  NodeId keep(NodeId old, std::vector<ValueId> inputs);  // with these (new) inputs
  // A new node with outputs of the given types; path and source line as of `like`.
  NodeId add(const OpDef* op, std::vector<ValueId> inputs, Attrs attrs, std::span<const TensorType> types, int mesh,
             NodeId like);
  // Translates control edges, variables and outputs, and hands over the new graph. Values that were never kept become
  // invalid ids where only a variable's `read` named them.
  Graph finish();

  Graph& graph() { return to_; }
  const Graph& graph() const { return to_; }

 private:
  const Graph& from_;
  Graph to_;
  ById<ValueId, ValueId> values_;
  ById<NodeId, NodeId> nodes_;
};

}  // namespace karez::passes
