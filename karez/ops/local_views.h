// Strides of windows: how reshape, broadcast, transpose and slice look at bytes that are there already.
#pragma once

#include <optional>

#include "karez/ops/namespace.h"
#include "karez/sbp/sbp.h"
#include "karez/tensor/tensor.h"

namespace karez::ops {

// Strides under which the same bytes are `shape` in logical row-major order, or none where only a copy can do it.
std::optional<Strides> reshape_strides(const View& view, const Shape& shape);

// dims[i] is the output dimension of input dimension i; all others repeat (stride 0).
View broadcast_view(const View& view, const Shape& shape, const std::vector<std::int64_t>& dims);
View transpose_view(const View& view, const std::vector<std::int64_t>& perm);

// The window `box` of a view whose first element is at `origin` of the same coordinates; sets the byte offset.
View slice_view(const View& view, const Box& origin, const Box& box, std::int64_t& offset_bytes);

}  // namespace karez::ops
