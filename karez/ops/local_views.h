// Strides of windows: the views of existing bytes for reshape, broadcast, transpose and slice.
#pragma once

#include <optional>

#include "karez/ops/namespace.h"
#include "karez/sbp/sbp.h"
#include "karez/tensor/tensor.h"

namespace karez::ops {

// Strides with which the same bytes have `shape` in logical row-major order; none if a copy is required.
std::optional<Strides> reshape_strides(const View& view, const Shape& shape);

// dims[i] is the output dimension of input dimension i; all others repeat (stride 0).
View broadcast_view(const View& view, const Shape& shape, const std::vector<std::int64_t>& dims);
View transpose_view(const View& view, const std::vector<std::int64_t>& perm);

// The window `box` of a view with its first element at `origin` in the same coordinates; sets the byte offset.
View slice_view(const View& view, const Box& origin, const Box& box, std::int64_t& offset_bytes);

}  // namespace karez::ops
