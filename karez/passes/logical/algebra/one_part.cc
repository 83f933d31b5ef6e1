// Removes a concat that has only one operand.
#include "karez/graph/op.h"
#include "karez/passes/logical/algebra/rule.h"

namespace karez::passes {

std::optional<Replacement> one_part(const Graph&, const Node& node) {
  return node.op->name == "concat" && node.inputs.size() == 1 ? std::optional(Replacement{node.inputs[0]})
                                                              : std::nullopt;
}

}  // namespace karez::passes
