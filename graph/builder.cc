// Adding nodes: operands checked, types inferred, errors with the user's line.
#include "graph/op.h"

namespace karez::graph {
namespace {

std::vector<TensorType> infer(const Graph& graph, const OpDef& op, std::span<const ValueId> inputs, const Attrs& attrs) {
  require(op.inputs < 0 || static_cast<int>(inputs.size()) == op.inputs, op.name, " takes ", op.inputs, op.inputs == 1 ? " operand" : " operands",
          ", not ", inputs.size());
  std::vector<TensorType> types;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require(graph.values.has(inputs[i]), op.name, ": operand ", i, " is no value of the graph (%", inputs[i], " of ", graph.values.size(), ")");
    require(graph.value(inputs[i]).mesh == graph.value(inputs[0]).mesh, op.name, ": operand ", i, " is on ", print(graph.mesh(inputs[i])),
            ", operand 0 on ", print(graph.mesh(inputs[0])));
    types.push_back(graph.type(inputs[i]));
  }
  return op.infer(types, attrs);
}

}  // namespace

std::vector<ValueId> Builder::add(std::string_view op, std::span<const ValueId> inputs, Attrs attrs) {
  const OpDef* row = nullptr;
  std::vector<TensorType> types;
  try {
    row = &ops_->at(op);
    types = infer(*graph_, *row, inputs, attrs);
    if (inputs.empty()) {
      require(ErrorKind::layout, mesh >= 0 && static_cast<std::size_t>(mesh) < graph_->meshes.size(), op, ": there is no mesh ", mesh,
              "; the graph has ", graph_->meshes.size());
    }
  } catch (const Error& error) {
    std::string place = where.empty() ? "" : cat(" at ", where);
    if (!path.empty()) place += where.empty() ? cat(" in ", path) : cat(" (in ", path, ")");
    if (place.empty()) throw;
    throw Error(error.kind, cat(error.what(), "\n ", place), where);
  }
  Node node;
  node.op = row;
  node.inputs.assign(inputs.begin(), inputs.end());
  node.attrs = std::move(attrs);
  node.path = path;
  node.where = where;
  NodeId id(graph_->nodes.size());
  int placement = inputs.empty() ? mesh : graph_->value(inputs[0]).mesh;
  for (TensorType& type : types) {
    node.outputs.emplace_back(graph_->values.size());
    graph_->values.push_back(
        {.producer = id, .output = static_cast<int>(node.outputs.size()) - 1, .type = std::move(type), .mesh = placement, .layout = {}});
  }
  graph_->nodes.push_back(std::move(node));
  return graph_->nodes.back().outputs;
}

ValueId Builder::one(std::string_view op, std::initializer_list<ValueId> inputs, Attrs attrs) {
  std::vector<ValueId> out = add(op, std::span<const ValueId>(inputs.begin(), inputs.size()), std::move(attrs));
  require(out.size() == 1, op, " has ", out.size(), " results, not one");
  return out[0];
}

}  // namespace karez::graph
