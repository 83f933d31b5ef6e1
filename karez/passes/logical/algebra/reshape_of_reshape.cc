// Merges two successive reshapes into one.
#include <algorithm>

#include "karez/graph/op.h"
#include "karez/passes/logical/algebra/rule.h"

namespace karez::passes {
namespace {

int count_uses(const Graph& graph, ValueId value) {
  int uses = 0;
  for (const Node& node : graph.nodes)
    uses += static_cast<int>(std::count(node.inputs.begin(), node.inputs.end(), value));
  for (const Output& output : graph.outputs) uses += output.value == value;
  return uses;
}

}  // namespace

// The result has the elements of x in the same order. The inner reshape must have no other use: if the strides of x
// require a copy, two reshapes of x would copy it twice. Both must be in the same module, because the recompute pass
// keeps or recomputes values by module.
std::optional<Replacement> reshape_of_reshape(const Graph& graph, const Node& node) {
  if (node.op->name != "reshape") return std::nullopt;
  const Node* inner = producer_on_mesh(graph, node.inputs[0], "reshape");
  if (inner == nullptr || inner->path != node.path || count_uses(graph, node.inputs[0]) > 1) return std::nullopt;
  return Replacement{.value = inner->inputs[0], .as_operand = true};
}

}  // namespace karez::passes
