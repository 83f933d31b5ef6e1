// The kinds and shapes of reductions, and the order in which their kernels add terms.
#pragma once

#include <cstdint>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

enum class ReduceKind : std::uint8_t { sum, max, min };
// Sums have two levels: chunks of this number of terms are summed, then the sums of the chunks are added. So an f32 sum
// of a million terms is accurate to a few ulps.
constexpr std::int64_t chunk = 512;

// In memory order, the operand is [outer, reduced, inner] and the result is [outer, inner]; each size may be 1. The
// steps are the elements from one index to the next; the inner elements follow each other.
struct ReduceShape {
  std::int64_t outer = 1, reduced = 1, inner = 1;
  std::int64_t outer_step = 1, reduced_step = 1;
};

}  // namespace karez::kernels
