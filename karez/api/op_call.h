// call_op, with which the functions of tensors add ops to a program, and the list of generated pointwise functions.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "karez/api/tensor.h"

namespace karez {

// Adds one node of an op that has one result, and returns the result: call_op("tanh", {&x}). The operands of a
// pointwise op broadcast and promote as in arithmetic, and integers and bools become f32 if the op accepts only floats.
// The operands of any other op keep their dtypes. A negative attribute `axis` counts from the last axis of the first
// operand.
Tensor call_op(std::string_view op, std::span<const Term* const> operands, Attrs attrs = {});
Tensor call_op(std::string_view op, std::initializer_list<const Term*> operands, Attrs attrs = {});

// A function of pointwise_functions.h.
struct PointwiseFunction {
  std::string name, doc;
  int operands = 1;
};
const std::vector<PointwiseFunction>& pointwise_functions();

}  // namespace karez
