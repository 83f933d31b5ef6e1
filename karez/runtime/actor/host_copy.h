// Copies one strided tensor onto another of the same shape, on the host, without allocating.
#pragma once

#include <cstddef>

#include "karez/runtime/namespace.h"
#include "karez/tensor/tensor.h"

namespace karez::runtime {

// Shapes and data types must be equal. Runs that are contiguous on both sides are copied at once.
void copy_tensor(std::byte* to, const View& to_view, const std::byte* from, const View& from_view);

}  // namespace karez::runtime
