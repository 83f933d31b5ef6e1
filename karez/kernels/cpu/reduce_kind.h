// The kinds of reductions, and the order in which their kernels add terms.
#pragma once

#include <cstdint>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

enum class ReduceKind : std::uint8_t { sum, max, min };
// Sums have two levels: chunks of this number of terms are summed, then the sums of the chunks are added. So an f32 sum
// of a million terms is accurate to a few ulps.
constexpr std::int64_t chunk = 512;

}  // namespace karez::kernels
