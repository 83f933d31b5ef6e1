// Box copy: copies between boxes of strided tensors, and a test for contiguous boxes, which need no copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "karez/comm/collective/collective.h"
#include "karez/comm/namespace.h"

namespace karez::comm {

std::int64_t count_of(const View& view, const TensorBox& box);  // in elements; 0 if the box is empty
TensorBox whole_box(const View& view);

// Returns the bytes from the first element of the view to the first element of the box.
std::int64_t offset_bytes(const View& view, const TensorBox& box);

// Returns true if the box's elements are adjacent in memory when visited in packed order. An empty box is contiguous.
bool is_contiguous(const View& view, const TensorBox& box);

// A copy between two strided boxes of equal sizes, analysed once. Each run of memory that is contiguous on both sides
// is copied by one memcpy.
class BoxCopy {
 public:
  BoxCopy(const View& from, const TensorBox& from_box, const View& to, const TensorBox& to_box);
  void run(const std::byte* from, std::byte* to) const;  // takes the addresses of the views' first elements

 private:
  struct Loop {
    std::int64_t size, from_step, to_step;  // steps in bytes
  };
  void run_loop(std::size_t index, const std::byte* from, std::byte* to) const;

  std::vector<Loop> loops_;  // outermost first
  std::int64_t run_bytes_ = 0, from_offset_ = 0, to_offset_ = 0;
};

// Returns a dense view of these sizes in packed order.
View packed_view(DType dtype, const Shape& size);

}  // namespace karez::comm
