// The reduce functions of collectives: sum, max and min for every element type.
#pragma once

#include "karez/comm/collective/collective.h"
#include "karez/runtime/namespace.h"
#include "karez/tensor/dtype.h"
#include "karez/tensor/reduce.h"

namespace karez::runtime {

// into[i] = into[i] (+ | max | min) from[i]. The sum of bools is an error. Integers wrap; max and min are those of
// karez/base/ieee_min_max.h, so members agree whichever operand is a NaN or a -0.
comm::ReduceFn reduce_function(Reduce kind, DType dtype);

}  // namespace karez::runtime
