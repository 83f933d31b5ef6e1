// Boxes of strided tensors: sizes, offsets, contiguity and copies.
#include "karez/comm/box_copy.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "karez/base/copy_bytes.h"
#include "karez/base/error.h"

namespace karez::comm {
namespace {
// Dimensions in packed order. It depends on the rank only: strides of dimensions of size 0 and 1 carry no information,
// and members differ in them.
std::vector<int> packed_order(int rank) {
  Strides strides = channels_last(Shape(static_cast<std::size_t>(rank), 2));
  std::vector<int> order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return strides[a] > strides[b]; });
  return order;
}
}  // namespace

std::int64_t count_of(const View& view, const TensorBox& box) {
  if (box.size.empty() && view.rank() > 0) return 0;
  return tensor::count_of(box.size);
}

TensorBox whole_box(const View& view) { return {std::vector<std::int64_t>(view.shape.size(), 0), view.shape}; }

std::int64_t offset_bytes(const View& view, const TensorBox& box) {
  if (count_of(view, box) == 0) return 0;
  return offset_of(box.begin, view.strides) * size_of(view.dtype);
}

bool is_contiguous(const View& view, const TensorBox& box) {
  if (count_of(view, box) == 0) return true;
  std::vector<int> order = packed_order(view.rank());
  std::int64_t step = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    if (box.size[*d] == 1) continue;
    if (view.strides[*d] != step) return false;
    step *= box.size[*d];
  }
  return true;
}

BoxCopy::BoxCopy(const View& from, const TensorBox& from_box, const View& to, const TensorBox& to_box) {
  if (count_of(from, from_box) == 0) return;
  const std::int64_t element = size_of(from.dtype);
  from_ = offset_bytes(from, from_box);
  to_ = offset_bytes(to, to_box);
  run_bytes_ = element;
  std::vector<Loop> left;
  for (std::size_t d = 0; d < from_box.size.size(); ++d)
    if (from_box.size[d] != 1) left.push_back({from_box.size[d], from.strides[d] * element, to.strides[d] * element});
  // In any order: dimensions that are contiguous on both sides are merged into one run, and the shortest strides become
  // the innermost loops.
  auto next_in_run = [&] {
    return std::find_if(left.begin(), left.end(),
                        [&](const Loop& loop) { return loop.from == run_bytes_ && loop.to == run_bytes_; });
  };
  for (auto next = next_in_run(); next != left.end(); next = next_in_run()) {
    run_bytes_ *= next->size;
    left.erase(next);
  }
  std::stable_sort(left.begin(), left.end(),
                   [](const Loop& a, const Loop& b) { return a.from + a.to < b.from + b.to; });
  for (const Loop& loop : left) {
    if (!loops_.empty() && loop.from == loops_.back().from * loops_.back().size &&
        loop.to == loops_.back().to * loops_.back().size) {
      loops_.back().size *= loop.size;
    } else {
      loops_.push_back(loop);
    }
  }
  std::reverse(loops_.begin(), loops_.end());
}

void BoxCopy::run(const std::byte* from, std::byte* to) const {
  if (run_bytes_ > 0) run(0, from + from_, to + to_);
}

void BoxCopy::run(std::size_t loop, const std::byte* from, std::byte* to) const {
  if (loop == loops_.size()) {
    copy_bytes(to, from, static_cast<std::size_t>(run_bytes_));
    return;
  }
  const Loop& l = loops_[loop];
  auto copy_elements = [&]<class T>(T) {
    for (std::int64_t i = 0; i < l.size; ++i) std::memcpy(to + i * l.to, from + i * l.from, sizeof(T));
  };
  bool last = loop + 1 == loops_.size();
  if (last && run_bytes_ == 4)
    return copy_elements(std::uint32_t{});  // single elements: a function call for each would cost more than the copy
  if (last && run_bytes_ == 8) return copy_elements(std::uint64_t{});
  if (last && run_bytes_ == 1) return copy_elements(std::uint8_t{});
  for (std::int64_t i = 0; i < l.size; ++i) run(loop + 1, from + i * l.from, to + i * l.to);
}

View packed_view(DType dtype, const Shape& size) { return View(dtype, size, channels_last(size)); }

}  // namespace karez::comm
