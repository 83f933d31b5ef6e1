// Reverse-mode differentiation of a graph: adds the nodes that compute gradients to the graph of the builder.
#pragma once

#include <span>
#include <vector>

#include "karez/graph/op.h"
#include "karez/ops/namespace.h"

namespace karez::ops {

// Returns the gradient of a scalar float loss with respect to each value of `wrt`, with the type of this value. The
// gradient is all zeros if the loss does not depend on the value. Builds only the gradients that `wrt` requires, for
// example not the input gradient of the first layer. Gradients do not flow from the values of `stops` to their
// producers. `seed` has the type of the loss and multiplies all gradients; it is 1 if invalid. New nodes have the
// source line of the forward node, and its module path followed by ".grad". Throws if the loss is not a float scalar, a
// value of `wrt` is an integer, or an op on the path has no gradient.
std::vector<ValueId> gradient(Builder& b, ValueId loss, std::span<const ValueId> wrt,
                              std::span<const ValueId> stops = {}, ValueId seed = {});

}  // namespace karez::ops
