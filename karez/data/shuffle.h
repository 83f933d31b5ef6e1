// The order in which an epoch visits its rows: a permutation that depends only on seed and epoch.
#pragma once

#include <cstdint>
#include <span>

#include "karez/data/namespace.h"

namespace karez::data {

// Fills `order` with a permutation of 0 .. order.size()-1: Fisher-Yates (Durstenfeld's form) with random words from
// Philox(seed, epoch). The result is the same on every machine and mesh, with any number of threads. The function
// allocates no memory.
void shuffle(std::span<std::int32_t> order, std::uint64_t seed, std::int64_t epoch);

}  // namespace karez::data
