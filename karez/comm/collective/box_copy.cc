// Box copy: finds the loops of a copy once and runs them. Also computes the sizes and offsets of boxes.
#include "karez/comm/collective/box_copy.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "karez/base/copy_bytes.h"
#include "karez/base/error.h"

namespace karez::comm {
namespace {
// Returns the dimensions in packed order. The order depends on the rank only: strides of dimensions of size 0 and 1
// have no meaning and may differ between members.
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
  from_offset_ = offset_bytes(from, from_box);
  to_offset_ = offset_bytes(to, to_box);
  run_bytes_ = element;
  std::vector<Loop> loops;
  for (std::size_t d = 0; d < from_box.size.size(); ++d)
    if (from_box.size[d] != 1) loops.push_back({from_box.size[d], from.strides[d] * element, to.strides[d] * element});
  // A copy may visit the elements in any order. So dimensions that are contiguous on both sides are merged into one
  // run, and the dimensions with the shortest strides become the innermost loops.
  auto next_in_run = [&] {
    return std::find_if(loops.begin(), loops.end(),
                        [&](const Loop& loop) { return loop.from_step == run_bytes_ && loop.to_step == run_bytes_; });
  };
  for (auto next = next_in_run(); next != loops.end(); next = next_in_run()) {
    run_bytes_ *= next->size;
    loops.erase(next);
  }
  std::stable_sort(loops.begin(), loops.end(),
                   [](const Loop& a, const Loop& b) { return a.from_step + a.to_step < b.from_step + b.to_step; });
  for (const Loop& loop : loops) {
    if (!loops_.empty() && loop.from_step == loops_.back().from_step * loops_.back().size &&
        loop.to_step == loops_.back().to_step * loops_.back().size) {
      loops_.back().size *= loop.size;
    } else {
      loops_.push_back(loop);
    }
  }
  std::reverse(loops_.begin(), loops_.end());
}

void BoxCopy::run(const std::byte* from, std::byte* to) const {
  if (run_bytes_ > 0) run_loop(0, from + from_offset_, to + to_offset_);
}

void BoxCopy::run_loop(std::size_t index, const std::byte* from, std::byte* to) const {
  if (index == loops_.size()) {
    copy_bytes(to, from, static_cast<std::size_t>(run_bytes_));
    return;
  }
  const Loop& loop = loops_[index];
  auto copy_elements = [&]<class T>(T) {
    for (std::int64_t i = 0; i < loop.size; ++i)
      std::memcpy(to + i * loop.to_step, from + i * loop.from_step, sizeof(T));
  };
  // For single elements, a function call for each would take longer than the copy.
  const bool innermost = index + 1 == loops_.size();
  if (innermost && run_bytes_ == 4) return copy_elements(std::uint32_t{});
  if (innermost && run_bytes_ == 8) return copy_elements(std::uint64_t{});
  if (innermost && run_bytes_ == 1) return copy_elements(std::uint8_t{});
  for (std::int64_t i = 0; i < loop.size; ++i) run_loop(index + 1, from + i * loop.from_step, to + i * loop.to_step);
}

View packed_view(DType dtype, const Shape& size) { return View(dtype, size, channels_last(size)); }

}  // namespace karez::comm
