// Looks up the producer of a value for rules that bypass the value.
#include "karez/graph/op.h"
#include "karez/passes/logical/algebra/rule.h"

namespace karez::passes {

// If a rule bypassed a value between two placements, the transfer would move to the other side of the node.
const Node* producer_on_mesh(const Graph& graph, ValueId value, std::string_view op) {
  const Node* node = rewritable_producer(graph, value);
  if (node == nullptr || node->op->name != op) return nullptr;
  return graph.value(node->inputs[0]).mesh == graph.value(value).mesh ? node : nullptr;
}

}  // namespace karez::passes
