// Loops for kernels along one axis: over the slices, which are the one-dimensional views along the axis.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "karez/kernels/cpu/loops.h"
#include "karez/kernels/cpu/team.h"
#include "karez/kernels/kernel.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

constexpr int max_axis_operands = 3;

struct AxisSlices {
  Loops loops;                                         // over all dimensions except the axis
  std::array<std::int64_t, max_axis_operands> size{};  // of each operand along the axis
  std::array<std::int64_t, max_axis_operands> step{};  // in elements

  std::int64_t count() const {
    std::int64_t out = 1;
    for (int d = 0; d < loops.rank; ++d) out *= loops.size[static_cast<std::size_t>(d)];
    return out;
  }
};

// Returns nullopt if the axis is out of range, if sizes other than those along the axis differ, or if a view is empty.
// The slices are in the memory order of the first view.
std::optional<AxisSlices> axis_slices(const std::vector<View>& views, std::int64_t axis);

// The offsets of one block of slices in each operand.
using SliceOffsets = std::array<std::int64_t, max_axis_operands>;

// Calls body(offsets, count, part) for blocks of at most `width` slices that are neighbours in the innermost loop. The
// threads of the team share the slices, each of which has `elements` elements to process.
template <class Body>
void for_each_slice_block(const AxisSlices& slices, int team, std::int64_t elements, std::int64_t width, Body body) {
  const Loops& loops = slices.loops;
  const std::int64_t elements_per_part = slices.count() / loops.size[0] * elements;
  const std::int64_t grain = std::max<std::int64_t>(32768 / std::max<std::int64_t>(elements_per_part, 1), 1);
  parallel_for(team, loops.size[0], grain, [&](std::int64_t begin, std::int64_t end, int part) {
    Loops mine = loops;
    mine.size[0] = end - begin;
    const std::int64_t inner = mine.inner();
    for_each_run(mine, [&](const auto& offset) {
      for (std::int64_t c = 0; c < inner; c += width) {
        SliceOffsets at{};
        for (int k = 0; k < loops.operands; ++k) {
          const auto operand = static_cast<std::size_t>(k);
          at[operand] = offset[operand] + begin * loops.stride[operand][0] + c * loops.step(k);
        }
        body(at, std::min(width, inner - c), part);
      }
    });
  });
}

}  // namespace karez::kernels
