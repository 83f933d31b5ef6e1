// Derives properties of nodes from the roles of their ops and from the variables of the graph.
#include "karez/passes/node_traits.h"

#include <algorithm>

#include "karez/sbp/transition.h"

namespace karez::passes {

ValueId source_of(const Graph& graph, ValueId value) {
  while (may_alias(graph.node(graph.value(value).producer))) value = graph.node(graph.value(value).producer).inputs[0];
  return value;
}

std::vector<bool> updates_in_place(const Graph& graph) {
  // For each value, the number of variables whose next version it is.
  ById<ValueId, int> variable_count(graph.values.size(), 0);
  ById<ValueId, bool> is_read(graph.values.size(), false);
  for (const Variable& variable : graph.variables)
    if (variable.updated.valid()) ++variable_count[variable.updated];
  for (const Node& node : graph.nodes)
    for (ValueId in : node.inputs) is_read[in] = true;
  for (const Output& output : graph.outputs) is_read[output.value] = true;
  auto is_in_place = [&](const Variable& variable) {
    if (!variable.read.valid() || !variable.updated.valid() || variable_count[variable.updated] > 1 ||
        is_read[variable.updated])
      return false;
    const Value& updated = graph.value(variable.updated);
    const Node& node = graph.node(updated.producer);
    if (updated.layout != graph.value(variable.read).layout) return false;
    bool declared = false;
    for (auto [in, out] : node.op->in_place)
      declared |= out == updated.output && node.inputs[static_cast<std::size_t>(in)] == variable.read;
    if (!declared) return false;
    // The writer may read the old version only as the operand that it overwrites: any other window on the old version
    // would change while it is read.
    int reads = 0;
    for (ValueId in : node.inputs) reads += source_of(graph, in) == variable.read;
    return reads == 1;
  };
  std::vector<bool> in_place_flags;
  for (const Variable& variable : graph.variables) in_place_flags.push_back(is_in_place(variable));
  return in_place_flags;
}

bool has_only_single_devices(const Graph& graph) {
  return std::all_of(graph.meshes.begin(), graph.meshes.end(), [](const Mesh& mesh) { return mesh.size() == 1; });
}

bool crosses_devices(const Node& node) {
  return node.op->role == Role::transfer ||
         (node.op->role == Role::transition && !is_local(move_from(node.attrs.text("move"))));
}

bool may_alias(const Node& node) {
  return node.op->role == Role::window || (node.op->role == Role::transition && !crosses_devices(node));
}

}  // namespace karez::passes
