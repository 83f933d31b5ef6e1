// Adding or taking away a zero.
#include "graph/op.h"
#include "passes/algebra/rule.h"

namespace karez::passes {

std::optional<Instead> add_zero(const Graph& graph, const Node& node) {
  const std::string& op = node.op->name;
  if (op != "add" && op != "sub") return std::nullopt;
  if (splat_of(graph, node.inputs[1]) == 0) return Instead{node.inputs[0]};
  if (op == "add" && splat_of(graph, node.inputs[0]) == 0) return Instead{node.inputs[1]};
  return std::nullopt;
}

}  // namespace karez::passes
