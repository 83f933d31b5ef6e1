// Removes a transpose that does not change the order of dimensions.
#include "karez/graph/op.h"
#include "karez/passes/logical/algebra/rule.h"

namespace karez::passes {

std::optional<Replacement> same_order(const Graph&, const Node& node) {
  if (node.op->name != "transpose") return std::nullopt;
  const Ints& perm = node.attrs.ints("perm");
  for (std::size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<std::int64_t>(i)) return std::nullopt;
  return Replacement{node.inputs[0]};
}

}  // namespace karez::passes
