// axes_or_all: checks and normalises the axes that a user passes to a reduction.
#pragma once

#include <algorithm>
#include <numeric>

#include "karez/api/namespace.h"
#include "karez/base/error.h"

namespace karez {

// Returns the axes as sorted non-negative numbers. Negative axes count from the end; an empty list means all axes.
inline Ints axes_or_all(const Ints& axes, int rank) {
  Ints out = axes;
  if (out.empty()) {
    out.resize(static_cast<std::size_t>(rank));
    std::iota(out.begin(), out.end(), 0);
  }
  for (auto& axis : out) {
    require(ErrorKind::shape, axis >= -rank && axis < rank, "axis ", axis, " of a tensor with ", rank,
            " dimensions does not exist");
    if (axis < 0) axis += rank;
  }
  std::sort(out.begin(), out.end());
  const auto twice = std::adjacent_find(out.begin(), out.end());
  if (twice != out.end()) fail(ErrorKind::shape, "axis ", *twice, " occurs twice in ", axes);
  return out;
}

}  // namespace karez
