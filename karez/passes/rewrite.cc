// Copies nodes, values and control edges into the new graph.
#include "karez/passes/rewrite.h"

#include <utility>

namespace karez::passes {

Rewrite::Rewrite(const Graph& old_graph)
    : old_graph_(old_graph),
      values_(old_graph.values.size()),
      nodes_(old_graph.nodes.size()) {
  new_graph_.name = old_graph.name;
  new_graph_.meshes = old_graph.meshes;
  new_graph_.variables = old_graph.variables;
  new_graph_.nodes.reserve(old_graph.nodes.size());
  new_graph_.values.reserve(old_graph.values.size());
}

Rewrite::Rewrite(Graph& old_graph, MoveNodes) : Rewrite(old_graph) { moved_graph_ = &old_graph; }

Node Rewrite::copy_or_move(NodeId old) {
  if (moved_graph_ == nullptr) return old_graph_.node(old);
  Node& from = moved_graph_->node(old);
  Node node;
  node.op = from.op, node.outputs = from.outputs, node.acts = from.acts, node.setup = from.setup;
  node.attrs = std::move(from.attrs), node.act_attrs = std::move(from.act_attrs);
  node.path = std::move(from.path), node.where = std::move(from.where);
  node.regions = std::move(from.regions);
  return node;
}

NodeId Rewrite::keep(NodeId old) {
  std::vector<ValueId> inputs;
  inputs.reserve(old_graph_.node(old).inputs.size());
  for (ValueId in : old_graph_.node(old).inputs) inputs.push_back(at(in));
  return keep(old, std::move(inputs));
}

NodeId Rewrite::keep(NodeId old, std::vector<ValueId> inputs) {
  Node node = copy_or_move(old);
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
  const Node& like = nodes_[source].valid() ? new_graph_.node(nodes_[source]) : old_graph_.node(source);
  node.path = like.path;
  node.where = like.where;
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
