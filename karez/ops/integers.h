// Compositions over bools and integers that have no op of their own: sums, products, comparisons and extremes of bools,
// powers of integers.
#pragma once

#include <string_view>

#include "karez/ops/build.h"
#include "karez/ops/namespace.h"

namespace karez::ops::build {

// Of bools the 0 and 1 of i32, any other value as it is.
ValueId as_numbers(Builder& b, ValueId x);
// A two-operand op of the table: a sum is whether one holds, a product whether both do, false is less than true. A
// difference is an error.
ValueId binary_of_bools(Builder& b, std::string_view op, ValueId x, ValueId y);
// One over a whole number is 0 but of 1 and -1: so are negative powers, as PyTorch has it.
ValueId pow_of_integers(Builder& b, ValueId base, ValueId power);
// reduce_max or reduce_min of any dtype.
ValueId extreme(Builder& b, ValueId x, const Ints& axes, ValueId (*op)(Builder&, ValueId, const Ints&));

}  // namespace karez::ops::build
