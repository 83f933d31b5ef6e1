// Checks that a slice is within the batch of a source.
#pragma once

#include "karez/base/text.h"
#include "karez/data/namespace.h"
#include "karez/data/source.h"

namespace karez::data {

// Slices come from the boxes of the plan, so an invalid slice is a fault of the plan or its caller. The error shows
// both types.
inline void check_slice(const TensorType& type, std::span<const std::int64_t> begin, const View& view) {
  bool ok = view.dtype == type.dtype && view.rank() == type.rank() && begin.size() == type.shape.size();
  for (std::size_t d = 0; ok && d < begin.size(); ++d) ok = begin[d] >= 0 && begin[d] + view.shape[d] <= type.shape[d];
  require(ErrorKind::shape, ok, "a source of ", type, " has no slice ", view, " at [", join(begin, ", "), "]");
}

}  // namespace karez::data
