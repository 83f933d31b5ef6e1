// The order of the dimensions of a view in memory.
#pragma once

#include "karez/base/attrs.h"
#include "karez/passes/namespace.h"
#include "karez/tensor/tensor.h"

namespace karez::passes {

// Returns the dimensions, outermost in memory first. Dimensions with equal strides keep their logical order.
Ints order_of(const View& view);

// Returns a dense view with dimension order[0] outermost in memory.
View view_in_order(DType dtype, const Shape& shape, const Ints& order);

}  // namespace karez::passes
