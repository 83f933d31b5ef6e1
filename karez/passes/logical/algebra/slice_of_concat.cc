// Replaces a slice that is within one operand of a concat with a slice of this operand.
#include "karez/graph/op.h"
#include "karez/passes/logical/algebra/rule.h"

namespace karez::passes {

std::optional<Replacement> slice_of_concat(const Graph& graph, const Node& node) {
  if (node.op->name != "slice") return std::nullopt;
  const Node* concat = producer_on_mesh(graph, node.inputs[0], "concat");
  if (concat == nullptr) return std::nullopt;
  const auto axis = static_cast<std::size_t>(concat->attrs.integer("axis"));
  Ints begin = node.attrs.ints("begin");
  const std::int64_t size = graph.type(node.outputs[0]).shape[axis];
  for (const ValueId operand : concat->inputs) {
    const std::int64_t length = graph.type(operand).shape[axis];
    if (begin[axis] >= 0 && begin[axis] + size <= length)
      return Replacement{.value = operand, .as_operand = true, .attrs = Attrs(node.attrs).set("begin", begin)};
    begin[axis] -= length;
  }
  return std::nullopt;
}

}  // namespace karez::passes
