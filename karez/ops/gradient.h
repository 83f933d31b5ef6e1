// Reverse-mode differentiation of a graph: adds the nodes that compute gradients to the graph of the builder.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "karez/graph/op.h"
#include "karez/ops/namespace.h"

namespace karez::ops {

// Functions that see and replace the gradients at the outputs and at the inputs of a part of a graph. `inputs` and
// `outputs` are results of nodes that copy one operand each; the nodes of one list are adjacent. The part reads
// `inputs`, and the rest of the graph reads `outputs`.
struct GradientHook {
  // Gets the gradients of the copies, and returns those of their operands, of the same types; an invalid id is a zero.
  using Replace = std::function<std::vector<ValueId>(std::span<const ValueId> gradients)>;
  std::vector<ValueId> inputs, outputs;
  Replace replace_inputs, replace_outputs;
};

// Returns the gradient of a scalar float loss with respect to each value of `wrt`, with the type of this value. The
// gradient is all zeros if the loss does not depend on the value. Builds only the gradients that `wrt` requires, for
// example not the input gradient of the first layer. Gradients do not flow from the values of `stops` to their
// producers. `seed` has the type of the loss and multiplies all gradients; it is 1 if invalid. New nodes have the
// source line of the forward node, and its module path followed by ".grad". Throws if the loss is not a float scalar, a
// value of `wrt` is an integer, or an op on the path has no gradient. The functions of a hook are called if the loss
// depends on its outputs and these depend on `wrt`: once each, at the outputs first.
std::vector<ValueId> gradient(Builder& b, ValueId loss, std::span<const ValueId> wrt,
                              std::span<const ValueId> stops = {}, ValueId seed = {},
                              std::span<const GradientHook> hooks = {});

}  // namespace karez::ops
