// Removes a multiplication or division by 1.
#include "karez/graph/op.h"
#include "karez/passes/logical/algebra/rule.h"

namespace karez::passes {

std::optional<Replacement> multiply_by_one(const Graph& graph, const Node& node) {
  const std::string& op = node.op->name;
  if (op != "mul" && op != "div") return std::nullopt;
  if (splat_of(graph, node.inputs[1]) == 1) return Replacement{node.inputs[0]};
  if (op == "mul" && splat_of(graph, node.inputs[0]) == 1) return Replacement{node.inputs[1]};
  return std::nullopt;
}

}  // namespace karez::passes
