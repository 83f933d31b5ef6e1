// Removes the addition or subtraction of zero.
#include <cmath>

#include "karez/graph/op.h"
#include "karez/passes/logical/algebra/rule.h"

namespace karez::passes {

// For floats, x + 0 is not always x: if x is -0, the sum is +0, and 1 / -0 differs from 1 / +0. But x + -0 and x - 0
// equal x for every x.
std::optional<Replacement> add_zero(const Graph& graph, const Node& node) {
  const std::string& op = node.op->name;
  if (op != "add" && op != "sub") return std::nullopt;
  bool is_integer = !is_float(graph.type(node.outputs[0]).dtype);
  auto is_zero = [&](std::size_t operand, bool is_negative) {
    auto number = splat_of(graph, node.inputs[operand]);
    return number && *number == 0 && (is_integer || std::signbit(*number) == is_negative);
  };
  if (is_zero(1, op == "add")) return Replacement{node.inputs[0]};
  if (op == "add" && is_zero(0, true)) return Replacement{node.inputs[1]};
  return std::nullopt;
}

}  // namespace karez::passes
