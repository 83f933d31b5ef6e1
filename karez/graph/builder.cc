// The Builder: adds nodes to a graph, checks operands, infers types, and reports errors with the user's source line.
#include <algorithm>
#include <utility>

#include "karez/graph/op.h"

namespace karez::graph {
namespace {

// The types of operands, of which the shapes are assigned to those of the previous call, without new memory.
thread_local std::vector<TensorType> operand_types;

std::vector<TensorType> infer(const Graph& graph, const OpDef& op, std::span<const ValueId> inputs,
                              const Attrs& attrs) {
  require(op.inputs < 0 || static_cast<int>(inputs.size()) == op.inputs, op.name, " expects ", op.inputs,
          op.inputs == 1 ? " operand" : " operands", ", got ", inputs.size());
  std::vector<TensorType> types = std::exchange(operand_types, {});  // the op may call a builder too
  if (types.size() < inputs.size()) types.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require(graph.values.has(inputs[i]), op.name, ": operand ", i, " is %", inputs[i],
            ", which does not exist; the graph has ", graph.values.size(), " values");
    types[i] = graph.type(inputs[i]);
  }
  std::vector<TensorType> results = op.infer(std::span(types).first(inputs.size()), attrs);
  operand_types = std::move(types);
  return results;
}

}  // namespace

// In a trace, mesh 0 means that no mesh is chosen yet. A caller that chooses a mesh equal to mesh 0 must add this mesh
// to Graph::meshes again, under another index.
int Builder::placement_of(const OpDef& op, std::span<const ValueId> inputs) const {
  if (mesh != 0 || op.role == Role::transfer) return mesh;
  std::int64_t largest = -1;
  for (ValueId in : inputs)
    if (graph_->value(in).mesh != 0) largest = std::max(largest, graph_->type(in).bytes());
  int best = 0;
  std::int64_t max_available = -1;
  for (ValueId in : inputs) {
    const Value& value = graph_->value(in);
    if (value.mesh == 0 || value.type.bytes() < largest) continue;
    std::int64_t available_bytes = 0;
    for (ValueId operand : inputs)
      if (graph_->value(operand).mesh == value.mesh || find_transferred(operand, value.mesh).valid())
        available_bytes += graph_->type(operand).bytes();
    if (available_bytes > max_available) max_available = available_bytes, best = value.mesh;
  }
  return best;
}

ValueId Builder::find_transferred(ValueId value, int target) const {
  auto entry = transferred_.find({value, target});
  if (entry == transferred_.end() || !graph_->values.has(entry->second) || graph_->value(entry->second).mesh != target)
    return {};
  const Node& node = graph_->node(graph_->value(entry->second).producer);
  return node.op->role == Role::transfer && node.inputs[0] == value ? entry->second : ValueId();
}

ValueId Builder::transfer_to_mesh(ValueId value, int target) {
  if (graph_->value(value).mesh == target) return value;
  if (ValueId transferred = find_transferred(value, target); transferred.valid()) return transferred;
  struct MeshGuard {
    int& mesh;
    int old_mesh;
    ~MeshGuard() { mesh = old_mesh; }
  } guard{mesh, std::exchange(mesh, target)};
  return transferred_[{value, target}] = one("transfer", {value});
}

std::vector<ValueId> Builder::add(std::string_view op, std::span<const ValueId> operands, Attrs attrs) {
  return add_node(op, operands, std::move(attrs)).outputs;
}

const Node& Builder::add_node(std::string_view op, std::span<const ValueId> operands, Attrs attrs) {
  const OpDef* row = nullptr;
  std::vector<TensorType> types;
  std::vector<ValueId> inputs(operands.begin(), operands.end());
  int placement = 0;
  try {
    row = &ops_->at(op);
    types = infer(*graph_, *row, inputs, attrs);
    require(ErrorKind::layout, mesh >= 0 && static_cast<std::size_t>(mesh) < graph_->meshes.size(), op, ": mesh ", mesh,
            " does not exist; number of meshes: ", graph_->meshes.size());
    placement = placement_of(*row, inputs);
    for (ValueId& in : inputs)
      if (row->role != Role::transfer && graph_->value(in).mesh != 0) in = transfer_to_mesh(in, placement);
  } catch (const Error& error) {
    std::string location = where.empty() ? "" : cat(" at ", where);
    if (!path.empty()) location += where.empty() ? cat(" in ", path) : cat(" (in ", path, ")");
    if (location.empty()) throw;
    throw Error(error.kind, cat(error.what(), "\n ", location), where);
  }
  return append(*row, std::move(inputs), std::move(attrs), std::move(types), placement);
}

std::vector<ValueId> Builder::add_copy(const Graph& from, const Node& node, std::span<const ValueId> operands) {
  const OpDef& row = ops_->at(node.op->name);
  std::vector<ValueId> inputs(operands.begin(), operands.end());
  const int placement = placement_of(row, inputs);
  const bool is_placed =
      std::any_of(inputs.begin(), inputs.end(), [&](ValueId in) { return graph_->value(in).mesh != 0; });
  if (is_placed || !node.regions.empty()) return add(node.op->name, operands, node.attrs);
  std::vector<TensorType> types;
  for (ValueId out : node.outputs) types.push_back(from.type(out));
  return append(row, std::move(inputs), node.attrs, std::move(types), placement).outputs;
}

const Node& Builder::append(const OpDef& row, std::vector<ValueId> inputs, Attrs attrs, std::vector<TensorType> types,
                            int placement) {
  Node node;
  node.op = &row;
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  node.path = path;
  node.where = where;
  NodeId id(graph_->nodes.size());
  for (TensorType& type : types) {
    node.outputs.emplace_back(graph_->values.size());
    graph_->values.push_back({.producer = id,
                              .output = static_cast<int>(node.outputs.size()) - 1,
                              .type = std::move(type),
                              .mesh = placement,
                              .layout = {}});
  }
  graph_->nodes.push_back(std::move(node));
  return graph_->nodes.back();
}

ValueId Builder::one(std::string_view op, std::initializer_list<ValueId> inputs, Attrs attrs) {
  const std::vector<ValueId>& out =
      add_node(op, std::span<const ValueId>(inputs.begin(), inputs.size()), std::move(attrs)).outputs;
  require(out.size() == 1, op, " must have 1 result, got ", out.size());
  return out[0];
}

}  // namespace karez::graph
