// Strided copies that are planned once. They support any strides, use memcpy for contiguous runs, and transpose in
// blocks if source and destination have different orders.
#pragma once

#include <cstddef>
#include <cstdint>

#include "karez/kernels/cpu/loops.h"
#include "karez/kernels/namespace.h"
#include "karez/tensor/tensor.h"

namespace karez::kernels {

// The plan of a copy. `from` may have strides of zero (a repeated dimension); elements of `to` must not overlap.
struct CopyPlan {
  enum class Kind : std::uint8_t {
    runs,       // the innermost loop is contiguous on both sides
    fill,       // the innermost loop repeats one element into a contiguous run
    transpose,  // the two innermost loops: `to` is contiguous along the last, `from` along the one before
    strided,    // everything else
  };
  Kind kind = Kind::runs;
  Loops loops;  // operand 0 is `to`, operand 1 is `from`
  std::int64_t element_bytes = 4;
};
CopyPlan plan_copy(const Shape& shape, const Strides& to, const Strides& from, std::int64_t element_bytes);
void run(const CopyPlan& plan, std::byte* to, const std::byte* from);

// The plan of a reshape: element i of `from` in row-major order becomes element i of `to`. Both may have any strides.
// If the shapes have no common refinement ([2, 3] to [3, 2] with gaps), elements are copied one by one.
struct ReshapePlan {
  CopyPlan copy;
  bool by_element = false;
  Loops to, from;  // if by_element: the loops of each side, in logical order
};
ReshapePlan plan_reshape(const Shape& to_shape, const Strides& to, const Shape& from_shape, const Strides& from,
                         std::int64_t element_bytes);
void run(const ReshapePlan& plan, std::byte* to, const std::byte* from);

}  // namespace karez::kernels
