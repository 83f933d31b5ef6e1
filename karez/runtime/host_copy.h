// Copies one strided tensor onto another of the same shape, on the host, without allocating.
#pragma once

#include <cstddef>

#include "karez/runtime/namespace.h"
#include "karez/tensor/tensor.h"

namespace karez::runtime {

// Shapes and dtypes must agree; runs that lie densely on both sides go in one piece.
void copy_tensor(std::byte* to, const View& to_view, const std::byte* from, const View& from_view);

}  // namespace karez::runtime
