// Replaces the sum over the pixels of a max pooling's gradient by the sum over the pooled pixels.
#include <algorithm>

#include "karez/graph/op.h"
#include "karez/passes/logical/algebra/rule.h"

namespace karez::passes {

// Every pooled gradient is added to one pixel, so both sums are equal up to rounding, and the second sum has a quarter
// of the terms. The gradient of a bias that is added before pooling has this form.
std::optional<Replacement> pooled_gradient_sum(const Graph& graph, const Node& node) {
  if (node.op->name != "reduce_sum") return std::nullopt;
  const Node* grad = rewritable_producer(graph, node.inputs[0]);
  if (grad == nullptr || grad->op->name != "max_pool_grad") return std::nullopt;
  const Ints& axes = node.attrs.ints("axes");
  bool sums_pixels = std::count(axes.begin(), axes.end(), 2) == 1 && std::count(axes.begin(), axes.end(), 3) == 1;
  return sums_pixels ? std::optional(Replacement{grad->inputs[0], true}) : std::nullopt;
}

}  // namespace karez::passes
