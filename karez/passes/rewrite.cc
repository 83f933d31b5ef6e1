// Copies nodes, values and control edges into the new graph.
#include "karez/passes/rewrite.h"

namespace karez::passes {

Rewrite::Rewrite(const Graph& old_graph)
    : old_graph_(old_graph),
      values_(old_graph.values.size()),
      nodes_(old_graph.nodes.size()) {
  new_graph_.name = old_graph.name;
  new_graph_.meshes = old_graph.meshes;
  new_graph_.variables = old_graph.variables;
}

NodeId Rewrite::keep(NodeId old) {
  std::vector<ValueId> inputs;
  for (ValueId in : old_graph_.node(old).inputs) inputs.push_back(at(in));
  return keep(old, std::move(inputs));
}

NodeId Rewrite::keep(NodeId old, std::vector<ValueId> inputs) {
  Node node = old_graph_.node(old);
  NodeId id(new_graph_.nodes.size());
  node.inputs = std::move(inputs);
  for (ValueId& out : node.outputs) {
    Value value = old_graph_.value(out);
    value.producer = id;
    ValueId new_value(new_graph_.values.size());
    new_graph_.values.push_back(std::move(value));
    map(out, new_value);
    out = new_value;
  }
  new_graph_.nodes.push_back(std::move(node));
  nodes_[old] = id;
  return id;
}

NodeId Rewrite::add(const OpDef* op, std::vector<ValueId> inputs, Attrs attrs, std::span<const TensorType> types,
                    int mesh, NodeId source) {
  NodeId id(new_graph_.nodes.size());
  Node node;
  node.op = op;
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  node.path = old_graph_.node(source).path;
  node.where = old_graph_.node(source).where;
  for (std::size_t i = 0; i < types.size(); ++i) {
    node.outputs.emplace_back(new_graph_.values.size());
    new_graph_.values.push_back({id, static_cast<int>(i), types[i], mesh, std::nullopt});
  }
  new_graph_.nodes.push_back(std::move(node));
  return id;
}

Graph Rewrite::finish() {
  for (NodeId i : nodes_.ids()) {
    if (!nodes_[i].valid()) continue;
    std::vector<NodeId> predecessors;
    for (NodeId predecessor : old_graph_.nodes[i].after)
      if (node_at(predecessor).valid()) predecessors.push_back(node_at(predecessor));
    new_graph_.node(nodes_[i]).after = std::move(predecessors);
  }
  for (Variable& variable : new_graph_.variables) {
    if (variable.read.valid()) variable.read = at(variable.read);
    if (variable.updated.valid()) variable.updated = at(variable.updated);
  }
  for (const Output& output : old_graph_.outputs)
    new_graph_.outputs.push_back({output.name, at(output.value), output.layout});
  return std::move(new_graph_);
}

}  // namespace karez::passes
