// Copies strided tensors. Contiguous ones are copied as bytes; others are copied in runs, or transposed in blocks.
#include "karez/runtime/actor/host_copy.h"

#include "karez/base/copy_bytes.h"
#include "karez/kernels/cpu/copy_plan.h"

namespace karez::runtime {
namespace {

// Does not allocate memory, unlike View::contiguous.
bool are_row_major(const View& a, const View& b) {
  std::int64_t stride = 1;
  for (std::size_t d = a.shape.size(); d-- > 0;) {
    if (a.shape[d] != 1 && (a.strides[d] != stride || b.strides[d] != stride)) return false;
    stride *= a.shape[d];
  }
  return true;
}

}  // namespace

void copy_tensor(std::byte* to, const View& to_view, const std::byte* from, const View& from_view) {
  require(to_view.dtype == from_view.dtype && to_view.shape == from_view.shape,
          "copy: source and target must have the same shape and data type, got ", from_view, " and ", to_view);
  if (are_row_major(to_view, from_view))
    return copy_bytes(to, from, static_cast<std::size_t>(to_view.count() * size_of(to_view.dtype)));
  kernels::run(kernels::plan_copy(to_view.shape, to_view.strides, from_view.strides, size_of(to_view.dtype)), to, from);
}

}  // namespace karez::runtime
