// Removes the negation of a negation.
#include "karez/graph/op.h"
#include "karez/passes/logical/algebra/rule.h"

namespace karez::passes {

std::optional<Replacement> double_negation(const Graph& graph, const Node& node) {
  if (node.op->name != "neg") return std::nullopt;
  const Node* inner = rewritable_producer(graph, node.inputs[0]);
  return inner != nullptr && inner->op->name == "neg" ? std::optional(Replacement{inner->inputs[0]}) : std::nullopt;
}

}  // namespace karez::passes
