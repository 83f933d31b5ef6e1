// Offsets for blocks of memory, so that blocks in use at the same time do not overlap and the peak is small.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "karez/solve/namespace.h"

namespace karez::solve {

struct Interval {
  long begin, end;  // half-open time; an empty one conflicts with nothing
  long size;
  long align = 1;
};

struct Block {
  long size;
  long align = 1;
};

struct PackLimits {
  long search_work = 200'000'000;  // blocks looked at by the search, never seconds: every rank decides alike; 0 leaves
                                   // the greedy answer
  long capacity = 0;               // a peak that is good enough: nothing below it is sought
  long tolerance =
      0;  // bytes over the lower bound that are not worth a search, where they are less than a hundredth of it as well
};

struct Packing {
  std::vector<long> offset = {};  // one per block, a multiple of its align
  long peak = 0;                  // largest offset + size
  long lower_bound = 0;  // no packing has a smaller peak: the most bytes live at once, or what a search has proven
  bool optimal = false;  // peak == lower_bound
};

// The best of several greedy orders; then, up to 4000 blocks, a bounded search for a packing at or near the lower
// bound.
Packing pack(std::span<const Interval>, const PackLimits& = {});

// The same for blocks whose conflicts are given as pairs of their numbers, in any order, perhaps repeated.
Packing pack(std::span<const Block>, std::span<const std::pair<int, int>> conflicts, const PackLimits& = {});

}  // namespace karez::solve
