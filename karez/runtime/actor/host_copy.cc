// Copies strided tensors: recurses over the outer dimensions, and copies the dense inner ones as contiguous bytes.
#include "karez/runtime/actor/host_copy.h"

#include "karez/base/copy_bytes.h"

namespace karez::runtime {
namespace {

struct Copy {
  const View &to, &from;
  std::int64_t size;  // size of an element in bytes
  int tail;           // the dimensions from this one on are row-major on both sides
  std::int64_t tail_bytes;

  void run(std::byte* t, const std::byte* f, int d) const {
    if (d == tail) {
      copy_bytes(t, f, static_cast<std::size_t>(tail_bytes));
      return;
    }
    for (std::int64_t i = 0; i < to.shape[d]; ++i)
      run(t + i * to.strides[d] * size, f + i * from.strides[d] * size, d + 1);
  }
};

}  // namespace

void copy_tensor(std::byte* to, const View& to_view, const std::byte* from, const View& from_view) {
  require(to_view.dtype == from_view.dtype && to_view.shape == from_view.shape,
          "copy: source and target must have the same shape and data type, got ", from_view, " and ", to_view);
  std::int64_t count = 1;
  int tail = to_view.rank();
  for (; tail > 0; --tail) {
    auto d = static_cast<std::size_t>(tail - 1);
    bool dense = to_view.shape[d] == 1 || (to_view.strides[d] == count && from_view.strides[d] == count);
    if (!dense) break;
    count *= to_view.shape[d];
  }
  for (auto n : to_view.shape)
    if (n == 0) return;
  Copy{to_view, from_view, size_of(to_view.dtype), tail, count * size_of(to_view.dtype)}.run(to, from, 0);
}

}  // namespace karez::runtime
