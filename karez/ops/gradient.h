// Reverse-mode differentiation, graph to graph: adds the nodes that compute gradients to the graph of the builder.
#pragma once

#include <span>
#include <vector>

#include "karez/graph/op.h"
#include "karez/ops/namespace.h"

namespace karez::ops {

// The gradients of a scalar float loss with respect to each value of `wrt`, of the type of that value; zeros if the
// loss does not depend on it. Only gradients that `wrt` requires are built: the input gradient of a first layer is not.
// Gradients do not pass from the values of `stops` to their producers. `seed`, of the type of the loss, multiplies all
// gradients; invalid: 1. New nodes have the source line of the forward node, and its module path followed by ".grad".
// Errors: a loss that is not a float scalar, `wrt` of integers, an op on the path without a gradient.
std::vector<ValueId> gradient(Builder& b, ValueId loss, std::span<const ValueId> wrt,
                              std::span<const ValueId> stops = {}, ValueId seed = {});

}  // namespace karez::ops
