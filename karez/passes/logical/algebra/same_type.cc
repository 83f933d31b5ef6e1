// Removes a reshape, broadcast, slice or pad that changes nothing.
#include "karez/graph/op.h"
#include "karez/passes/logical/algebra/rule.h"

namespace karez::passes {

std::optional<Replacement> same_type(const Graph& graph, const Node& node) {
  const std::string& op = node.op->name;
  if (op != "reshape" && op != "broadcast" && op != "slice" && op != "pad") return std::nullopt;
  return graph.type(node.inputs[0]) == graph.type(node.outputs[0]) ? std::optional(Replacement{node.inputs[0]})
                                                                   : std::nullopt;
}

}  // namespace karez::passes
