// The reduce functions of collectives: sum, max and min for every element type.
#pragma once

#include "karez/comm/collective/collective.h"
#include "karez/runtime/namespace.h"
#include "karez/tensor/dtype.h"
#include "karez/tensor/reduce.h"

namespace karez::runtime {

// Returns a function that computes into[i] = into[i] (+ | max | min) from[i]. The sum of bools is an error. Sums of
// integers wrap around on overflow. The functions max and min are those of karez/base/ieee_min_max.h, which do not
// depend on the order of their operands, so all members get the same result even for NaN and -0.
comm::ReduceFn reduce_function(Reduce kind, DType dtype);

}  // namespace karez::runtime
