// The reduce functions that collectives get from the runtime: sum, max and min of every element type.
#pragma once

#include <string_view>

#include "karez/comm/collective.h"
#include "karez/runtime/namespace.h"
#include "karez/tensor/dtype.h"

namespace karez::runtime {

// into[i] = into[i] (+ | max | min) from[i]. "" gives none; an unknown kind, and the sum of bools, are errors. Integers
// wrap; max and min are those of karez/base/ieee_min_max.h: whichever side a NaN or a -0 stands on, members agree.
comm::ReduceFn reduce_function(std::string_view kind, DType dtype);

}  // namespace karez::runtime
