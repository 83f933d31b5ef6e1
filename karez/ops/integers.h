// Operations on bools and integers that are not ops but compositions of primitive ops: sums, products, comparisons,
// maxima and minima of bools, and powers of integers.
#pragma once

#include <string_view>

#include "karez/ops/build.h"
#include "karez/ops/namespace.h"

namespace karez::ops::build {

// Converts bools to i32 0 and 1, and returns other values unchanged.
ValueId as_numbers(Builder& b, ValueId x);
// Adds an op with two bool operands: a sum is a logical or, a product is a logical and, and false is less than true.
// Throws if the op is "sub".
ValueId binary_of_bools(Builder& b, std::string_view op, ValueId x, ValueId y);
// Raises integers to integer powers. As in PyTorch, a negative power gives 0, except for the bases 1 and -1.
ValueId pow_of_integers(Builder& b, ValueId base, ValueId power);
// Applies `op`, which is reduce_max or reduce_min, to x of any dtype, including bool.
ValueId reduce_extremum(Builder& b, ValueId x, const Ints& axes, ValueId (*op)(Builder&, ValueId, const Ints&));

}  // namespace karez::ops::build
