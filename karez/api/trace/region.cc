// Implements Trace::region: moves the nodes that a body wrote from the trace's graph to a separate graph.
#include <algorithm>

#include "karez/api/namespace.h"
#include "karez/api/trace/trace.h"

namespace karez {
namespace {

// Returns whether the node is an input or variable, which belongs to the program even if the body reads it first.
bool stays_outside(const Node& node) { return node.op->role == Role::source || node.op->role == Role::state; }

}  // namespace

Trace::Region Trace::region(const std::string& name, const std::vector<TensorType>& types,
                            const std::function<std::vector<ValueId>(std::span<const ValueId>)>& body) {
  const std::size_t first_node = graph.nodes.size(), first_value = graph.values.size();
  std::size_t updates = 0;
  for (const auto& versions : versions_) updates += versions.size() - 1;
  std::vector<ValueId> arguments, results;
  {
    enclosing_.push_back(number_);
    ScopedValue number_scope(number_, next_trace_number());
    struct EnclosingGuard {
      std::vector<std::uint64_t>& list;
      ~EnclosingGuard() { list.pop_back(); }
    } guard{enclosing_};
    for (const TensorType& type : types) arguments.push_back(build::input(builder, name, type));
    results = body(arguments);
  }
  for (const auto& versions : versions_) updates -= versions.size() - 1;
  require(updates == 0, name,
          ": the body updates a variable; pass its value as a carry, and update the variable afterwards");

  std::vector<Node> nodes(graph.nodes.begin() + static_cast<std::ptrdiff_t>(first_node), graph.nodes.end());
  const std::vector<Value> values(graph.values.begin() + static_cast<std::ptrdiff_t>(first_value), graph.values.end());
  graph.nodes.resize(first_node);
  graph.values.resize(first_value);
  const auto is_moved = [&](ValueId id) { return id.valid() && static_cast<std::size_t>(id.index) >= first_value; };
  const auto value_of = [&](ValueId id) -> const Value& {
    return values[static_cast<std::size_t>(id.index) - first_value];
  };

  // Moves inputs and variables that were first read in the body back to the outer graph.
  ById<ValueId, ValueId> outside(first_value + values.size());
  for (ValueId id : ById<ValueId, bool>(first_value).ids()) outside[id] = id;
  const std::size_t num_arguments = types.size();  // the first nodes are placeholders for the arguments
  for (std::size_t n = num_arguments; n < nodes.size(); ++n) {
    if (!stays_outside(nodes[n])) continue;
    Node node = nodes[n];
    Value value = value_of(node.outputs[0]);
    value.producer = NodeId(graph.nodes.size());
    outside[node.outputs[0]] = ValueId(graph.values.size());
    node.outputs[0] = outside[node.outputs[0]];
    graph.values.push_back(std::move(value));
    graph.nodes.push_back(std::move(node));
  }
  const auto move_out = [&](ValueId& id) {
    if (is_moved(id)) id = outside[id];
  };
  for (Variable& variable : graph.variables) move_out(variable.read);
  for (auto& versions : versions_)
    for (Version& version : versions) move_out(version.value);
  for (HostScalar& scalar : host_scalars_) move_out(scalar.id);
  // The ids of the body's values become those of later values.
  no_gradients_.erase(no_gradients_.lower_bound(ValueId(first_value)), no_gradients_.end());

  Region out;
  out.graph.name = name;
  out.graph.meshes = {graph.meshes[0]};
  ById<ValueId, ValueId> new_ids(first_value + values.size());
  const auto argument = [&](const TensorType& type) {
    out.graph.arguments.emplace_back(out.graph.values.size());
    out.graph.values.push_back({.producer = {}, .output = 0, .type = type, .mesh = 0, .layout = {}});
    return out.graph.arguments.back();
  };
  for (ValueId id : arguments) new_ids[id] = argument(value_of(id).type);
  const auto capture = [&](ValueId id) {
    if (new_ids[id].valid() || !outside[id].valid()) return;
    out.captured.push_back(outside[id]);
    new_ids[id] = argument(graph.type(outside[id]));
  };
  for (std::size_t n = num_arguments; n < nodes.size(); ++n)
    if (!stays_outside(nodes[n]))
      for (ValueId in : nodes[n].inputs) capture(in);
  for (ValueId result : results) capture(result);
  for (std::size_t n = num_arguments; n < nodes.size(); ++n) {
    Node& node = nodes[n];
    if (stays_outside(node)) continue;
    require(node.op->role != Role::transfer, name, ": the body is on several placements; it must be on one placement");
    for (ValueId& in : node.inputs) in = new_ids[in];
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      Value value = value_of(node.outputs[i]);
      value.producer = NodeId(out.graph.nodes.size());
      value.mesh = 0;
      new_ids[node.outputs[i]] = ValueId(out.graph.values.size());
      node.outputs[i] = new_ids[node.outputs[i]];
      out.graph.values.push_back(std::move(value));
    }
    out.graph.nodes.push_back(std::move(node));
  }
  for (std::size_t i = 0; i < results.size(); ++i)
    out.graph.outputs.push_back({cat("out", i), new_ids[results[i]], std::nullopt});
  return out;
}

}  // namespace karez
