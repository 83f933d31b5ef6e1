// Computes windows: views of existing bytes that are the results of reshape, broadcast, transpose and slice.
#pragma once

#include <optional>

#include "karez/ops/namespace.h"
#include "karez/sbp/sbp.h"
#include "karez/tensor/tensor.h"

namespace karez::ops {

// Returns the strides with which the bytes of `view` have the shape `shape` and their elements keep the logical
// row-major order; nullopt if a copy is required.
std::optional<Strides> reshape_strides(const View& view, const Shape& shape);

// dims[i] is the output dimension of input dimension i; the other output dimensions repeat (stride 0).
View broadcast_view(const View& view, const Shape& shape, const std::vector<std::int64_t>& dims);
View transpose_view(const View& view, const std::vector<std::int64_t>& perm);

// Returns the window `box` of a view that covers the box `origin`, and sets the offset of the window in bytes.
View slice_view(const View& view, const Box& origin, const Box& box, std::int64_t& offset_bytes);

}  // namespace karez::ops
