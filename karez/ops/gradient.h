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
  // If this list is not empty, the outputs count as functions of these values, and replace_outputs returns the
  // gradients of these values. Then no gradient flows through the part itself, and replace_outputs gets an invalid id
  // for an output on which the loss does not depend, instead of zeros.
  std::vector<ValueId> operands = {};
};

// A function that sees and replaces the gradient of a value. It is called once, with the sum of all contributions, if
// there are any, and returns a gradient of the same type.
struct ValueHook {
  ValueId value;
  std::function<ValueId(ValueId gradient)> replace;
  bool is_source = false;  // whether the gradient is computed even if the value does not depend on `wrt`
};

// Optional arguments of `gradient`.
struct GradientOptions {
  std::span<const ValueId> stops = {};  // gradients do not flow from these values to their producers
  ValueId seed = {};                    // has the type of the loss and multiplies all gradients; 1 if invalid
  std::span<const GradientHook> hooks = {};
  std::span<const ValueHook> value_hooks = {};
  // Called before each function of a hook with the gradients that this function and later nodes may need.
  std::function<void(std::span<const ValueId> gradients)> before_hook = {};
  bool zeros = true;  // whether gradients on which the loss does not depend are zeros; otherwise their ids are invalid
};

// Returns the gradient of a scalar float loss with respect to each value of `wrt`, with the type of this value. The
// gradient is all zeros, or an invalid id, if the loss does not depend on the value. Builds only the gradients that
// `wrt` requires, for example not the input gradient of the first layer. New nodes have the source line of the forward
// node, and its module path followed by ".grad". Throws if the loss is not a float scalar, a value of `wrt` is an
// integer, or an op on the path has no gradient. The functions of a GradientHook are called if the loss depends on its
// outputs and these depend on `wrt`: once each, at the outputs first.
std::vector<ValueId> gradient(Builder& b, ValueId loss, std::span<const ValueId> wrt,
                              const GradientOptions& options = {});

}  // namespace karez::ops
