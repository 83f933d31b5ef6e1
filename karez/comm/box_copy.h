// Boxes of strided tensors: which of them are contiguous in packed order, and copies of those that are not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "karez/comm/collective.h"
#include "karez/comm/namespace.h"

namespace karez::comm {

std::int64_t count_of(const View& view, const TensorBox& box);  // elements; 0 if the box is empty
TensorBox whole_box(const View& view);

// Bytes from the view's first element to the box's first.
std::int64_t offset_bytes(const View& view, const TensorBox& box);

// Whether the box's elements, walked in packed order, follow each other in memory. An empty box is contiguous.
bool is_contiguous(const View& view, const TensorBox& box);

// A copy between two strided boxes of equal sizes, analysed once. Each run of memory that is contiguous on both sides
// is copied by one memcpy.
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

// A dense view of these sizes in packed order.
View packed_view(DType dtype, const Shape& size);

}  // namespace karez::comm
