// Gradients outside of compiled functions: of computations that were recorded while they ran.
#pragma once

#include <vector>

#include "karez/api/grad_mode.h"
#include "karez/api/tensor.h"

namespace karez {

// Makes the tensor a leaf: computations with it are recorded, and `backward` returns the gradient with respect to it.
// The tensor must be a float tensor outside of a trace that is not the result of a recorded computation.
void require_gradient(Tensor& tensor, bool enabled = true);
// Returns whether the tensor is a leaf, or the result of a recorded computation that depends on a leaf or a parameter.
bool requires_gradient(const Tensor& tensor);
bool is_leaf(const Tensor& tensor);  // true for a tensor that was not computed from others with a record
// Identifies a leaf; null if the tensor is not a leaf that requires a gradient.
const void* leaf_identity(const Tensor& tensor);
// Makes the tensor a new value of this leaf, after a write.
void replace_leaf(Tensor& tensor, const Tensor& leaf);

// The leaves and parameters on which values depend, in the order in which the computation first used them.
struct GradientTargets {
  std::vector<Parameter> parameters;
  std::vector<Tensor> leaves;
};
GradientTargets gradient_targets(const std::vector<Tensor>& outputs);

struct BackwardOptions {
  bool retain_graph = false;  // keeps the record of the computation, for another call
  bool create_graph = false;  // records the computation of the gradients too; the record is then kept
};
// Returns the gradients of sum over i of sum(outputs[i] * seeds[i]) with respect to the targets: first those of the
// parameters, then those of the leaves, which may also be results of recorded computations. An output without a seed
// (an uninitialised tensor) must have one element; its seed is 1. Gradients are zero if no output depends on a target.
// Throws if the record was released by an earlier call, or if a parameter that the gradients need was written since.
std::vector<Tensor> backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& seeds,
                             const GradientTargets& targets, const BackwardOptions& options = {},
                             SourceLine where = SourceLine::current());

}  // namespace karez
