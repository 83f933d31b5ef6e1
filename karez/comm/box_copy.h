// Boxes of strided tensors: which lie in memory as they travel, and copies of those that do not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "karez/comm/collective.h"
#include "karez/comm/namespace.h"

namespace karez::comm {

std::int64_t count_of(const View& view, const TensorBox& box);  // elements; 0 where the piece is empty
TensorBox whole_box(const View& view);

// Bytes from the view's first element to the box's first.
std::int64_t offset_bytes(const View& view, const TensorBox& box);

// The box's elements, walked in packed order, follow each other in memory. An empty box is contiguous.
bool is_contiguous(const View& view, const TensorBox& box);

// A copy between two strided boxes of equal sizes, worked out once. Runs of memory that both sides share go in one
// memcpy.
class BoxCopy {
 public:
  BoxCopy(const View& from, const TensorBox& from_box, const View& to, const TensorBox& to_box);
  void run(const std::byte* from, std::byte* to) const;  // addresses of the views' first elements

 private:
  struct Loop {
    std::int64_t size, from, to;  // steps in bytes
  };
  void run(std::size_t loop, const std::byte* from, std::byte* to) const;

  std::vector<Loop> loops_;  // outermost first
  std::int64_t run_bytes_ = 0, from_ = 0, to_ = 0;
};

// A view of the piece's sizes that lies in memory in packed order.
View packed_view(DType dtype, const Shape& size);

}  // namespace karez::comm
