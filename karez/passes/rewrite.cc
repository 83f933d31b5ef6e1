// Copies nodes, values and control edges into the new graph.
#include "karez/passes/rewrite.h"

namespace karez::passes {

Rewrite::Rewrite(const Graph& from) : from_(from), values_(from.values.size()), nodes_(from.nodes.size()) {
  to_.name = from.name;
  to_.meshes = from.meshes;
  to_.variables = from.variables;
}

NodeId Rewrite::keep(NodeId old) {
  std::vector<ValueId> inputs;
  for (ValueId in : from_.node(old).inputs) inputs.push_back(at(in));
  return keep(old, std::move(inputs));
}

NodeId Rewrite::keep(NodeId old, std::vector<ValueId> inputs) {
  Node node = from_.node(old);
  NodeId id(to_.nodes.size());
  node.inputs = std::move(inputs);
  for (ValueId& out : node.outputs) {
    Value value = from_.value(out);
    value.producer = id;
    ValueId now(to_.values.size());
    to_.values.push_back(std::move(value));
    map(out, now);
    out = now;
  }
  to_.nodes.push_back(std::move(node));
  nodes_[old] = id;
  return id;
}

NodeId Rewrite::add(const OpDef* op, std::vector<ValueId> inputs, Attrs attrs, std::span<const TensorType> types,
                    int mesh, NodeId like) {
  NodeId id(to_.nodes.size());
  Node node;
  node.op = op;
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  node.path = from_.node(like).path;
  node.where = from_.node(like).where;
  for (std::size_t i = 0; i < types.size(); ++i) {
    node.outputs.emplace_back(to_.values.size());
    to_.values.push_back({id, static_cast<int>(i), types[i], mesh, std::nullopt});
  }
  to_.nodes.push_back(std::move(node));
  return id;
}

Graph Rewrite::finish() {
  for (NodeId i : nodes_.ids()) {
    if (!nodes_[i].valid()) continue;
    std::vector<NodeId> after;
    for (NodeId before : from_.nodes[i].after)
      if (node_at(before).valid()) after.push_back(node_at(before));
    to_.node(nodes_[i]).after = std::move(after);
  }
  for (Variable& variable : to_.variables) {
    if (variable.read.valid()) variable.read = at(variable.read);
    if (variable.updated.valid()) variable.updated = at(variable.updated);
  }
  for (const Output& output : from_.outputs) to_.outputs.push_back({output.name, at(output.value), output.layout});
  return std::move(to_);
}

}  // namespace karez::passes
