// Computes the strides of windows, which are views of existing bytes.
#include "karez/ops/local_views.h"

namespace karez::ops {

std::optional<Strides> reshape_strides(const View& view, const Shape& shape) {
  require(ErrorKind::shape, view.count() == count_of(shape), "reshape: ", view, " and ", shape,
          " must have the same number of elements");
  if (view.count() == 0) return row_major(shape);
  Strides out(shape.size(), 1);
  // Walks both shapes from the last dimension; a run of mutually contiguous source dimensions maps to a run of target
  // dimensions.
  int target = static_cast<int>(shape.size()) - 1;
  std::int64_t run = 1, filled = 1, base = 0;
  bool starts_run = true;
  for (int d = view.rank() - 1; d >= 0; --d) {
    auto dim = static_cast<std::size_t>(d);
    if (view.shape[dim] == 1) continue;
    if (starts_run) {
      base = view.strides[dim];
      run = filled = 1;
      starts_run = false;
    } else if (view.strides[dim] != base * run) {
      return std::nullopt;
    }
    run *= view.shape[dim];
    while (target >= 0 && filled * shape[static_cast<std::size_t>(target)] <= run) {
      std::int64_t size = shape[static_cast<std::size_t>(target)];
      out[static_cast<std::size_t>(target)] = base * filled;
      filled *= size;
      --target;
    }
    if (filled == run) starts_run = true;
  }
  if (!starts_run) return std::nullopt;
  for (; target >= 0; --target) out[static_cast<std::size_t>(target)] = 1;  // only dimensions of size 1 remain
  return out;
}

View broadcast_view(const View& view, const Shape& shape, const std::vector<std::int64_t>& dims) {
  Strides strides(shape.size(), 0);
  for (std::size_t i = 0; i < dims.size(); ++i) strides[static_cast<std::size_t>(dims[i])] = view.strides[i];
  return View(view.dtype, shape, strides);
}

View transpose_view(const View& view, const std::vector<std::int64_t>& perm) {
  View out = view;
  for (std::size_t i = 0; i < perm.size(); ++i) {
    out.shape[i] = view.shape[static_cast<std::size_t>(perm[i])];
    out.strides[i] = view.strides[static_cast<std::size_t>(perm[i])];
  }
  return out;
}

View slice_view(const View& view, const Box& origin, const Box& box, std::int64_t& offset_bytes) {
  View out = view;
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < box.size(); ++d) {
    out.shape[d] = box[d].size();
    offset += (box[d].begin - origin[d].begin) * view.strides[d];
  }
  offset_bytes = empty(box) ? 0 : offset * size_of(view.dtype);
  return out;
}

}  // namespace karez::ops
