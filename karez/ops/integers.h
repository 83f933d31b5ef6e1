// Compositions over bools and integers that have no op of their own: sums, products, comparisons and extremes of bools,
// powers of integers.
#pragma once

#include <string_view>

#include "karez/ops/build.h"
#include "karez/ops/namespace.h"

namespace karez::ops::build {

// Bools as i32 0 and 1; any other value unchanged.
ValueId as_numbers(Builder& b, ValueId x);
// A two-operand op of the table on bools: a sum is a logical or, a product a logical and, false is less than true. A
// difference is an error.
ValueId binary_of_bools(Builder& b, std::string_view op, ValueId x, ValueId y);
// Negative powers are 0, except of 1 and -1, as in PyTorch.
ValueId pow_of_integers(Builder& b, ValueId base, ValueId power);
// reduce_max or reduce_min for any dtype.
ValueId extreme(Builder& b, ValueId x, const Ints& axes, ValueId (*op)(Builder&, ValueId, const Ints&));

}  // namespace karez::ops::build
