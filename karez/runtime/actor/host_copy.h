// Copies a strided tensor to another one of the same shape, on the host, without allocating memory.
#pragma once

#include <cstddef>

#include "karez/runtime/namespace.h"
#include "karez/tensor/tensor.h"

namespace karez::runtime {

// The shapes and data types must be equal. A run of elements that is contiguous on both sides is copied by one call.
void copy_tensor(std::byte* to, const View& to_view, const std::byte* from, const View& from_view);

}  // namespace karez::runtime
