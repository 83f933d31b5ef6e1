// Loops over strided operands: dimensions are dropped, sorted and merged once, then stored in fixed arrays, so that a
// run allocates no memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <type_traits>

#include "karez/base/ieee_min_max.h"
#include "karez/kernels/namespace.h"
#include "karez/tensor/tensor.h"

namespace karez::kernels {

constexpr int max_rank = 8;       // dimensions of an operand
constexpr int max_loops = 16;     // the common refinement of a reshape has more dimensions than either side
constexpr int max_operands = 12;  // x0..x9, an output, and one in reserve

// Nested loops; the last is the innermost. stride[k][d] is the step of operand k along loop d, in elements. There is at
// least one loop: a scalar has one loop with one iteration, and an empty shape has one loop without iterations.
struct Loops {
  int operands = 0;
  int rank = 0;
  std::array<std::int64_t, max_loops> size{};
  std::array<std::array<std::int64_t, max_loops>, max_operands> stride{};

  std::int64_t inner() const { return size[static_cast<std::size_t>(rank - 1)]; }
  std::int64_t step(int operand) const {
    return stride[static_cast<std::size_t>(operand)][static_cast<std::size_t>(rank - 1)];
  }
};

enum class Order {
  logical,    // in the order of the shape
  by_memory,  // the largest stride of the first operand is outermost; only for independent iterations
};

// Makes a loop for each dimension of `shape` larger than 1; adjacent loops without a gap in any operand are merged.
Loops loops_over(const Shape& shape, std::span<const Strides> operands, Order order);
inline Loops loops_over(const Shape& shape, std::initializer_list<Strides> operands, Order order) {
  return loops_over(shape, std::span<const Strides>(operands.begin(), operands.size()), order);
}

// Calls run(offsets) at the start of each innermost loop; offsets[k] is the element of operand k. The caller runs the
// inner() iterations itself.
template <class Run> void for_each_run(const Loops& loops, Run&& run) {
  const int outer = loops.rank - 1;
  for (int d = 0; d <= outer; ++d)
    if (loops.size[static_cast<std::size_t>(d)] == 0) return;
  std::array<std::int64_t, max_loops> index{};
  std::array<std::int64_t, max_operands> offset{};
  while (true) {
    run(static_cast<const std::array<std::int64_t, max_operands>&>(offset));
    int at = outer - 1;
    for (; at >= 0; --at) {
      const auto d = static_cast<std::size_t>(at);
      const bool more = ++index[d] < loops.size[d];
      const std::int64_t steps = more ? 1 : 1 - loops.size[d];  // otherwise back to the start of this loop
      for (int k = 0; k < loops.operands; ++k)
        offset[static_cast<std::size_t>(k)] += steps * loops.stride[static_cast<std::size_t>(k)][d];
      if (more) break;
      index[d] = 0;
    }
    if (at < 0) return;
  }
}

// Calls body(offsets) for each element.
template <class Body> void for_each_element(const Loops& loops, Body&& body) {
  const std::int64_t count = loops.inner();
  for_each_run(loops, [&](std::array<std::int64_t, max_operands> offset) {
    for (std::int64_t i = 0; i < count; ++i) {
      body(static_cast<const std::array<std::int64_t, max_operands>&>(offset));
      for (int k = 0; k < loops.operands; ++k) offset[static_cast<std::size_t>(k)] += loops.step(k);
    }
  });
}

// The type in which sums of T are accumulated: double for floats, and unsigned 64-bit words for integers, because their
// low bits wrap around in the same way.
template <class T> using Wide = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;

}  // namespace karez::kernels
