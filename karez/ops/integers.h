// Operations on bools and integers without an op, composed of primitive ops: sums, products, comparisons, maxima and
// minima of bools, and powers of integers.
#pragma once

#include <string_view>

#include "karez/ops/build.h"
#include "karez/ops/namespace.h"

namespace karez::ops::build {

// Converts bools to i32 0 and 1, and returns other values unchanged.
ValueId as_numbers(Builder& b, ValueId x);
// Adds an op with two bool operands: a sum is a logical or, a product is a logical and, and false is less than true.
// Throws for a difference.
ValueId binary_of_bools(Builder& b, std::string_view op, ValueId x, ValueId y);
// Computes powers of integers. Negative powers are 0, except for bases 1 and -1, as in PyTorch.
ValueId pow_of_integers(Builder& b, ValueId base, ValueId power);
// Applies reduce_max or reduce_min, for any dtype.
ValueId reduce_extremum(Builder& b, ValueId x, const Ints& axes, ValueId (*op)(Builder&, ValueId, const Ints&));

}  // namespace karez::ops::build
