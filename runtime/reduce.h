// The reduce functions that collectives get from the runtime: sum, max and min of every element type.
#pragma once

#include <string_view>

#include "comm/collective.h"
#include "tensor/dtype.h"

namespace karez::runtime {

// into[i] = into[i] (+ | max | min) from[i]. "" gives none; an unknown kind, and the sum of bools, are errors. Integers wrap; a NaN wins
// over every number, whichever side it stands on, so that members agree.
comm::ReduceFn reduce_function(std::string_view kind, DType dtype);

}  // namespace karez::runtime
