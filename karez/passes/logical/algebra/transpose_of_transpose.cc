// Merges two successive transposes into one.
#include "karez/graph/op.h"
#include "karez/passes/logical/algebra/rule.h"

namespace karez::passes {

// Dimension i of the result is dimension outer[i] of the inner transpose, and so dimension inner[outer[i]] of x.
std::optional<Replacement> transpose_of_transpose(const Graph& graph, const Node& node) {
  if (node.op->name != "transpose") return std::nullopt;
  const Node* inner = producer_on_mesh(graph, node.inputs[0], "transpose");
  if (inner == nullptr) return std::nullopt;
  Ints perm;
  for (const std::int64_t d : node.attrs.ints("perm"))
    perm.push_back(inner->attrs.ints("perm")[static_cast<std::size_t>(d)]);
  return Replacement{.value = inner->inputs[0], .as_operand = true, .attrs = Attrs(node.attrs).set("perm", perm)};
}

}  // namespace karez::passes
