// Functions that see and replace gradients at the inputs and outputs of a part of a program, such as a module.
#pragma once

#include <functional>
#include <vector>

#include "karez/api/functions.h"
#include "karez/api/namespace.h"

namespace karez {

// The part reads `inputs`, and the rest of the program reads `outputs`; both are results of adjacent_copies.
struct TensorHook {
  // Gets the gradients of the copies, and returns those of the copied tensors, of the same types. A tensor without a
  // value is a zero.
  using Replace = std::function<std::vector<Tensor>(const std::vector<Tensor>& gradients)>;
  std::vector<Tensor> inputs, outputs;
  Replace replace_inputs, replace_outputs;
};

// Copies of values in the program that is being traced, for a TensorHook.
std::vector<Tensor> adjacent_copies(const std::vector<Term>& values);

// As grad without hooks. Of each hook whose outputs the loss depends on, and that depends on a parameter or tensor,
// replace_outputs is called once, and then replace_inputs.
std::vector<Tensor> grad(Term loss, const std::vector<Parameter>& parameters, const std::vector<TensorHook>& hooks);
std::vector<Tensor> grad(Term loss, const std::vector<Tensor>& tensors, const std::vector<TensorHook>& hooks);

}  // namespace karez
