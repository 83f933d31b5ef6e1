// Recognises splats: values whose elements are all equal.
#include "karez/graph/op.h"
#include "karez/passes/logical/algebra/rule.h"

namespace karez::passes {

std::optional<double> splat_of(const Graph& graph, ValueId value) {
  const Node* node = rewritable_producer(graph, value);
  if (node == nullptr) return std::nullopt;
  if (node->op->name == "constant" && node->attrs.has("value")) return node->attrs.real("value");
  return node->op->role == Role::window ? splat_of(graph, node->inputs[0]) : std::nullopt;
}

}  // namespace karez::passes
