// A concat of one operand.
#include "karez/graph/op.h"
#include "karez/passes/algebra/rule.h"

namespace karez::passes {

std::optional<Instead> one_part(const Graph&, const Node& node) {
  return node.op->name == "concat" && node.inputs.size() == 1 ? std::optional(Instead{node.inputs[0]}) : std::nullopt;
}

}  // namespace karez::passes
