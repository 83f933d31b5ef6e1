// The reduce functions of collectives: sum, max and min for every element type.
#pragma once

#include <string_view>

#include "karez/comm/collective.h"
#include "karez/runtime/namespace.h"
#include "karez/tensor/dtype.h"

namespace karez::runtime {

// into[i] = into[i] (+ | max | min) from[i]. Returns null for ""; an unknown kind and the sum of bools are errors.
// Integers wrap; max and min are those of karez/base/ieee_min_max.h, so members agree whichever operand is a NaN or a
// -0.
comm::ReduceFn reduce_function(std::string_view kind, DType dtype);

}  // namespace karez::runtime
