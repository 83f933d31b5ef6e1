// Removes stop_gradient, which has no effect once gradients have been built.
#include "karez/graph/op.h"
#include "karez/passes/logical/algebra/rule.h"

namespace karez::passes {

std::optional<Replacement> stop_gradient(const Graph&, const Node& node) {
  return node.op->name == "stop_gradient" ? std::optional(Replacement{node.inputs[0]}) : std::nullopt;
}

}  // namespace karez::passes
