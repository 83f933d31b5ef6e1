// The negation of a negation.
#include "karez/graph/op.h"
#include "karez/passes/algebra/rule.h"

namespace karez::passes {

std::optional<Instead> double_negation(const Graph& graph, const Node& node) {
  if (node.op->name != "neg") return std::nullopt;
  const Node* inner = unpinned_producer(graph, node.inputs[0]);
  return inner != nullptr && inner->op->name == "neg" ? std::optional(Instead{inner->inputs[0]}) : std::nullopt;
}

}  // namespace karez::passes
