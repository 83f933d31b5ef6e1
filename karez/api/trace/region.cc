// Regions of a trace: the nodes that a body wrote are moved from the graph into a graph of their own.
#include <algorithm>

#include "karez/api/namespace.h"
#include "karez/api/trace/trace.h"

namespace karez {
namespace {

// Inputs and variables belong to the whole program, even if the body reads them first.
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
    ScopedValue numbered(number_, next_trace_number());
    struct EnclosingGuard {
      std::vector<std::uint64_t>& list;
      ~EnclosingGuard() { list.pop_back(); }
    } around{enclosing_};
    for (const TensorType& type : types) arguments.push_back(build::input(builder, name, type));
    results = body(arguments);
  }
  for (const auto& versions : versions_) updates -= versions.size() - 1;
  require(updates == 0, name, ": its body updates a variable; pass it on as a carry, and update it afterwards");

  std::vector<Node> nodes(graph.nodes.begin() + static_cast<std::ptrdiff_t>(first_node), graph.nodes.end());
  const std::vector<Value> values(graph.values.begin() + static_cast<std::ptrdiff_t>(first_value), graph.values.end());
  graph.nodes.resize(first_node);
  graph.values.resize(first_value);
  const auto cut = [&](ValueId id) { return id.valid() && static_cast<std::size_t>(id.index) >= first_value; };
  const auto value_of = [&](ValueId id) -> const Value& {
    return values[static_cast<std::size_t>(id.index) - first_value];
  };

  // Moves inputs and variables that the body was the first to read back to the outer graph.
  ById<ValueId, ValueId> outside(first_value + values.size());
  for (ValueId id : ById<ValueId, bool>(first_value).ids()) outside[id] = id;
  const std::size_t own = types.size();  // the first nodes are placeholders for the arguments
  for (std::size_t n = own; n < nodes.size(); ++n) {
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
    if (cut(id)) id = outside[id];
  };
  for (Variable& variable : graph.variables) move_out(variable.read);
  for (auto& versions : versions_)
    for (Version& version : versions) move_out(version.value);
  for (HostScalar& scalar : host_scalars_) move_out(scalar.id);

  Region out;
  out.graph.name = name;
  out.graph.meshes = {graph.meshes[0]};
  ById<ValueId, ValueId> now(first_value + values.size());
  const auto argument = [&](const TensorType& type) {
    out.graph.arguments.emplace_back(out.graph.values.size());
    out.graph.values.push_back({.producer = {}, .output = 0, .type = type, .mesh = 0, .layout = {}});
    return out.graph.arguments.back();
  };
  for (ValueId id : arguments) now[id] = argument(value_of(id).type);
  const auto captures = [&](ValueId id) {
    if (now[id].valid() || !outside[id].valid()) return;
    out.captured.push_back(outside[id]);
    now[id] = argument(graph.type(outside[id]));
  };
  for (std::size_t n = own; n < nodes.size(); ++n)
    if (!stays_outside(nodes[n]))
      for (ValueId in : nodes[n].inputs) captures(in);
  for (ValueId result : results) captures(result);
  for (std::size_t n = own; n < nodes.size(); ++n) {
    Node& node = nodes[n];
    if (stays_outside(node)) continue;
    require(node.op->role != Role::transfer, name, ": its body is on several placements; it must be on one");
    for (ValueId& in : node.inputs) in = now[in];
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      Value value = value_of(node.outputs[i]);
      value.producer = NodeId(out.graph.nodes.size());
      value.mesh = 0;
      now[node.outputs[i]] = ValueId(out.graph.values.size());
      node.outputs[i] = now[node.outputs[i]];
      out.graph.values.push_back(std::move(value));
    }
    out.graph.nodes.push_back(std::move(node));
  }
  for (std::size_t i = 0; i < results.size(); ++i)
    out.graph.outputs.push_back({cat("out", i), now[results[i]], std::nullopt});
  return out;
}

}  // namespace karez
