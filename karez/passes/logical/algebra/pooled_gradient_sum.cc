// Replaces a sum over the pixels of max_pool_grad(dy) with the sum over the pixels of dy.
#include <algorithm>

#include "karez/graph/op.h"
#include "karez/passes/logical/algebra/rule.h"

namespace karez::passes {

// max_pool_grad adds each element of dy to one pixel, so the two sums are equal up to rounding. With 2 x 2 windows the
// sum over dy has a quarter of the terms. The gradient of a bias that is added before pooling has this form.
std::optional<Replacement> pooled_gradient_sum(const Graph& graph, const Node& node) {
  if (node.op->name != "reduce_sum") return std::nullopt;
  const Node* grad = rewritable_producer(graph, node.inputs[0]);
  if (grad == nullptr || grad->op->name != "max_pool_grad") return std::nullopt;
  const Ints& axes = node.attrs.ints("axes");
  bool sums_pixels = std::count(axes.begin(), axes.end(), 2) == 1 && std::count(axes.begin(), axes.end(), 3) == 1;
  return sums_pixels ? std::optional(Replacement{grad->inputs[0], true}) : std::nullopt;
}

}  // namespace karez::passes
