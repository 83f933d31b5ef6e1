// Replaces a transposed factor of a matrix product with the factor itself and a flag of the product.
#include <numeric>
#include <utility>

#include "karez/graph/op.h"
#include "karez/passes/logical/algebra/rule.h"

namespace karez::passes {

std::optional<Replacement> transposed_factor(const Graph& graph, const Node& node) {
  if (node.op->name != "matmul") return std::nullopt;
  for (const std::size_t operand : {std::size_t{0}, std::size_t{1}}) {
    const Node* transpose = producer_on_mesh(graph, node.inputs[operand], "transpose");
    if (transpose == nullptr) continue;
    Ints exchanged(transpose->attrs.ints("perm").size());  // the last two dimensions: 0, 2, 1
    std::iota(exchanged.begin(), exchanged.end(), 0);
    std::swap(exchanged[exchanged.size() - 2], exchanged.back());
    if (transpose->attrs.ints("perm") != exchanged) continue;
    const char* flag = operand == 0 ? "transpose_a" : "transpose_b";
    Attrs attrs = node.attrs;
    if (attrs.flag(flag, false)) attrs.erase(flag);
    else attrs.set(flag, true);
    return Replacement{
        .value = transpose->inputs[0], .as_operand = true, .operand = operand, .attrs = std::move(attrs)};
  }
  return std::nullopt;
}

}  // namespace karez::passes
