// Plans strided copies, and runs them with an inner loop for each element size.
#include "karez/kernels/cpu/copy_plan.h"

#include <cstring>
#include <vector>

#include "karez/base/copy_bytes.h"

namespace karez::kernels {
namespace {

// Calls `body` with an unsigned type of the element's size; a copy depends on no other property of the type.
template <class Body> void with_size(std::int64_t bytes, Body&& body) {
  switch (bytes) {
    case 1: return body.template operator()<std::uint8_t>();
    case 2: return body.template operator()<std::uint16_t>();
    case 4: return body.template operator()<std::uint32_t>();
    case 8: return body.template operator()<std::uint64_t>();
  }
  fail("a copy supports elements of 1, 2, 4 or 8 bytes, got ", bytes);
}

// transpose_4x4() transposes four rows of four elements in registers, with loads and stores of 16 bytes; `to_row` and
// `from_column` are strides in elements. It compiles to instructions that every x86-64 and ARMv8 processor has.
typedef std::uint32_t Vec4 __attribute__((vector_size(16)));
Vec4 load_vec4(const std::uint32_t* from) {
  Vec4 out;
  std::memcpy(&out, from, sizeof(Vec4));
  return out;
}
void store_vec4(std::uint32_t* to, Vec4 value) { std::memcpy(to, &value, sizeof(Vec4)); }
void transpose_4x4(std::uint32_t* to, const std::uint32_t* from, std::int64_t to_row, std::int64_t from_column) {
  const Vec4 a = load_vec4(from), b = load_vec4(from + from_column), c = load_vec4(from + 2 * from_column),
             d = load_vec4(from + 3 * from_column);
  const Vec4 low_ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), high_ab = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Vec4 low_cd = __builtin_shufflevector(c, d, 0, 4, 1, 5), high_cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store_vec4(to, __builtin_shufflevector(low_ab, low_cd, 0, 1, 4, 5));
  store_vec4(to + to_row, __builtin_shufflevector(low_ab, low_cd, 2, 3, 6, 7));
  store_vec4(to + 2 * to_row, __builtin_shufflevector(high_ab, high_cd, 0, 1, 4, 5));
  store_vec4(to + 3 * to_row, __builtin_shufflevector(high_ab, high_cd, 2, 3, 6, 7));
}

// Computes to[r, c] = from[c, r] in tiles of 16 x 16, so that 16 cache lines of each side stay in the L1 cache.
template <class U>
void transpose_tiles(U* to, const U* from, std::int64_t rows, std::int64_t columns, std::int64_t to_row,
                     std::int64_t from_column) {
  constexpr std::int64_t tile = 16;
  const auto part = [&](std::int64_t r0, std::int64_t r1, std::int64_t c0, std::int64_t c1) {
    for (std::int64_t r = r0; r < r1; ++r)
      for (std::int64_t c = c0; c < c1; ++c) to[r * to_row + c] = from[r + c * from_column];
  };
  for (std::int64_t r0 = 0; r0 < rows; r0 += tile)
    for (std::int64_t c0 = 0; c0 < columns; c0 += tile) {
      const std::int64_t r1 = std::min(rows, r0 + tile), c1 = std::min(columns, c0 + tile);
      if constexpr (sizeof(U) == 4) {
        const std::int64_t r4 = r1 - (r1 - r0) % 4, c4 = c1 - (c1 - c0) % 4;
        for (std::int64_t r = r0; r < r4; r += 4)
          for (std::int64_t c = c0; c < c4; c += 4)
            transpose_4x4(to + r * to_row + c, from + r + c * from_column, to_row, from_column);
        part(r0, r4, c4, c1);
        part(r4, r1, c0, c1);
      } else {
        part(r0, r1, c0, c1);
      }
    }
}

template <class U> void run_typed(const CopyPlan& plan, U* to, const U* from) {
  const Loops& loops = plan.loops;
  const std::int64_t count = loops.inner(), to_step = loops.step(0), from_step = loops.step(1);
  switch (plan.kind) {
    case CopyPlan::Kind::runs:
      return for_each_run(loops, [&](const auto& offsets) {
        copy_bytes(to + offsets[0], from + offsets[1], static_cast<std::size_t>(count) * sizeof(U));
      });
    case CopyPlan::Kind::fill:
      return for_each_run(loops, [&](const auto& offsets) { std::fill_n(to + offsets[0], count, from[offsets[1]]); });
    case CopyPlan::Kind::transpose: {
      const auto row = static_cast<std::size_t>(loops.rank - 2);
      Loops outer = loops;  // transpose_tiles loops over the rows, so this loop has one iteration
      outer.size[row] = 1;
      return for_each_run(outer, [&](const auto& offsets) {
        transpose_tiles(to + offsets[0], from + offsets[1], loops.size[row], count, loops.stride[0][row], from_step);
      });
    }
    case CopyPlan::Kind::strided:
      return for_each_run(loops, [&](const auto& offsets) {
        for (std::int64_t i = 0; i < count; ++i) to[offsets[0] + i * to_step] = from[offsets[1] + i * from_step];
      });
  }
}

}  // namespace

CopyPlan plan_copy(const Shape& shape, const Strides& to, const Strides& from, std::int64_t element_bytes) {
  CopyPlan plan;
  plan.element_bytes = element_bytes;
  plan.loops = loops_over(shape, {to, from}, Order::by_memory);
  Loops& loops = plan.loops;
  const auto last = static_cast<std::size_t>(loops.rank - 1);
  const std::int64_t to_step = loops.step(0), from_step = loops.step(1);
  if (loops.inner() <= 1 || (to_step == 1 && from_step == 1)) return plan;
  plan.kind = CopyPlan::Kind::strided;
  if (to_step != 1) return plan;
  if (from_step == 0) {
    plan.kind = CopyPlan::Kind::fill;
    return plan;
  }
  // If `from` is contiguous along another loop, move this loop next to the last and copy in tiles.
  for (std::size_t d = 0; d < last; ++d) {
    if (loops.stride[1][d] != 1) continue;
    for (std::size_t k = d; k + 1 < last; ++k) {
      std::swap(loops.size[k], loops.size[k + 1]);
      for (std::size_t operand = 0; operand < 2; ++operand)
        std::swap(loops.stride[operand][k], loops.stride[operand][k + 1]);
    }
    plan.kind = CopyPlan::Kind::transpose;
    break;
  }
  return plan;
}

void run(const CopyPlan& plan, std::byte* to, const std::byte* from) {
  with_size(plan.element_bytes,
            [&]<class U>() { run_typed(plan, reinterpret_cast<U*>(to), reinterpret_cast<const U*>(from)); });
}

namespace {
// Finds the coarsest shape that refines both shapes: [6, 4] and [2, 12] give [2, 3, 4]. Returns false if there is none.
// Converts the strides of both sides to this shape: if a dimension is split into a x b, the first part gets stride * b
// and the second part gets stride.
bool refine(const Shape& to_shape, const Strides& to, const Shape& from_shape, const Strides& from, Shape& shape,
            Strides& fine_to, Strides& fine_from) {
  std::size_t i = to_shape.size(), j = from_shape.size();
  std::int64_t rest_to = 1, rest_from = 1, step_to = 0,
               step_from = 0;  // sizes of the parts of the current dimensions that are not split yet, and their strides
  while (true) {
    while (rest_to == 1 && i > 0) rest_to = to_shape[--i], step_to = to[i];
    while (rest_from == 1 && j > 0) rest_from = from_shape[--j], step_from = from[j];
    if (rest_to == 1 && rest_from == 1) break;
    const std::int64_t size = std::min(rest_to, rest_from);
    if (size == 1 || rest_to % size != 0 || rest_from % size != 0) return false;
    shape.insert(shape.begin(), size);
    fine_to.insert(fine_to.begin(), step_to);
    fine_from.insert(fine_from.begin(), step_from);
    rest_to /= size, rest_from /= size;
    step_to *= size, step_from *= size;
  }
  return shape.size() <= max_loops;
}
}  // namespace

ReshapePlan plan_reshape(const Shape& to_shape, const Strides& to, const Shape& from_shape, const Strides& from,
                         std::int64_t element_bytes) {
  require(ErrorKind::shape, count_of(to_shape) == count_of(from_shape), "reshape: ", from_shape, " and ", to_shape,
          " must have the same number of elements");
  ReshapePlan plan;
  const bool dense =
      same_order(to_shape, to, row_major(to_shape)) && same_order(from_shape, from, row_major(from_shape));
  Shape shape;
  Strides fine_to, fine_from;
  if (dense) {
    plan.copy = plan_copy({count_of(to_shape)}, {1}, {1}, element_bytes);
  } else if (count_of(to_shape) == 0) {
    plan.copy = plan_copy({0}, {1}, {1}, element_bytes);
  } else if (refine(to_shape, to, from_shape, from, shape, fine_to, fine_from)) {
    plan.copy = plan_copy(shape, fine_to, fine_from, element_bytes);
  } else {
    plan.by_element = true;
    plan.copy.element_bytes = element_bytes;
    plan.to = loops_over(to_shape, {to}, Order::logical);
    plan.from = loops_over(from_shape, {from}, Order::logical);
  }
  return plan;
}

void run(const ReshapePlan& plan, std::byte* to, const std::byte* from) {
  if (!plan.by_element) return run(plan.copy, to, from);
  with_size(plan.copy.element_bytes, [&]<class U>() {
    // Both indices advance together; the loop over `k` advances the index of the source.
    auto* out = reinterpret_cast<U*>(to);
    const auto* in = reinterpret_cast<const U*>(from);
    std::array<std::int64_t, max_loops> index{};
    std::int64_t at_from = 0;
    for_each_element(plan.to, [&](const auto& offsets) {
      out[offsets[0]] = in[at_from];
      for (int k = plan.from.rank - 1; k >= 0; --k) {
        const auto d = static_cast<std::size_t>(k);
        at_from += plan.from.stride[0][d];
        if (++index[d] < plan.from.size[d]) break;
        at_from -= plan.from.size[d] * plan.from.stride[0][d];
        index[d] = 0;
      }
    });
  });
}

}  // namespace karez::kernels
