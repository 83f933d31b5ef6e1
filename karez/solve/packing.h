// Offsets for memory blocks such that blocks in use at the same time do not overlap and the peak is small.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "karez/solve/namespace.h"
#include "karez/solve/pack_problem.h"

namespace karez::solve {

struct Interval {
  long begin, end;  // half-open range of times; an empty interval has no conflicts
  long size;        // in bytes
  long align = 1;
};

struct PackLimits {
  long search_work = 200'000'000;  // maximum number of blocks that the search visits; 0 returns the greedy packing. A
                                   // count instead of seconds, so that every rank makes the same decision
  long capacity = 0;               // a sufficient peak; the search does not look for a lower one
  long tolerance = 0;  // no search is made if the peak is at most this many bytes above the lower bound, and also at
                       // most a hundredth of the bound above it
};

struct Packing {
  std::vector<long> offset = {};  // by block; a multiple of the block's align
  long peak = 0;                  // largest offset + size
  long lower_bound = 0;  // no packing has a lower peak: the maximum of live bytes, or a bound that a search proved
  bool optimal = false;  // peak == lower_bound
};

// Returns the packing with the lowest peak that greedy placement in several orders finds. For up to 4000 blocks, also
// makes a bounded search for a packing at or near the lower bound.
Packing pack(std::span<const Interval>, const PackLimits& = {});

// Packs blocks whose conflicts are given as pairs of block numbers, in any order; pairs may be repeated.
Packing pack(std::span<const Block>, std::span<const std::pair<int, int>> conflicts, const PackLimits& = {});

}  // namespace karez::solve
