// Reverse-mode differentiation, graph to graph: adds the nodes that compute gradients to the graph of the builder.
#pragma once

#include <span>
#include <vector>

#include "karez/graph/op.h"
#include "karez/ops/namespace.h"

namespace karez::ops {

// The gradients of a scalar float loss with respect to each value of `wrt` (of its type; zeros where the loss does not
// depend on it). Only what `wrt` needs is built: a first layer's input gradient is not. No gradient passes the values
// of `ends` to what made them. `seed`, of the loss' type, is what all of them are multiplied by; none: one. New nodes
// carry the forward node's source line and its module path with ".grad" behind. Errors: a loss that is no float scalar,
// `wrt` of integers, an op on the way that has no gradient.
std::vector<ValueId> gradient(Builder& b, ValueId loss, std::span<const ValueId> wrt,
                              std::span<const ValueId> stops = {}, ValueId seed = {});

}  // namespace karez::ops
