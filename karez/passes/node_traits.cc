// Derives the properties from the roles of ops and the variables of the graph.
#include "karez/passes/node_traits.h"

#include "karez/sbp/transition.h"

namespace karez::passes {

ValueId source_of(const Graph& graph, ValueId value) {
  while (may_alias(graph.node(graph.value(value).producer))) value = graph.node(graph.value(value).producer).inputs[0];
  return value;
}

std::vector<bool> updates_in_place(const Graph& graph) {
  ById<ValueId, int> writers(graph.values.size(), 0);  // variables that take the value
  ById<ValueId, bool> read(graph.values.size(), false);
  for (const Variable& variable : graph.variables)
    if (variable.updated.valid()) ++writers[variable.updated];
  for (const Node& node : graph.nodes)
    for (ValueId in : node.inputs) read[in] = true;
  for (const Output& output : graph.outputs) read[output.value] = true;
  auto in_place = [&](const Variable& variable) {
    if (!variable.read.valid() || !variable.updated.valid() || writers[variable.updated] > 1 || read[variable.updated])
      return false;
    const Value& updated = graph.value(variable.updated);
    const Node& node = graph.node(updated.producer);
    if (updated.layout != graph.value(variable.read).layout) return false;
    bool declared = false;
    for (auto [in, out] : node.op->in_place)
      declared |= out == updated.output && node.inputs[static_cast<std::size_t>(in)] == variable.read;
    if (!declared) return false;
    int reads = 0;  // the writer takes the old version once, as the operand that it overwrites: another window on it
                    // would change while it is read
    for (ValueId in : node.inputs) reads += source_of(graph, in) == variable.read;
    return reads == 1;
  };
  std::vector<bool> made;
  for (const Variable& variable : graph.variables) made.push_back(in_place(variable));
  return made;
}

bool updates_in_place(const Graph& graph, const Variable& variable) {
  return updates_in_place(graph)[static_cast<std::size_t>(&variable - graph.variables.data())];
}

bool crosses_devices(const Node& node) {
  return node.op->role == Role::transfer ||
         (node.op->role == Role::transition && !is_local(move_from(node.attrs.text("move"))));
}

bool may_alias(const Node& node) {
  return node.op->role == Role::window || (node.op->role == Role::transition && !crosses_devices(node));
}

}  // namespace karez::passes
