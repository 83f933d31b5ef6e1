// Offsets for memory blocks, so that blocks in use at the same time do not overlap and the peak is small.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "karez/solve/namespace.h"

namespace karez::solve {

struct Interval {
  long begin, end;  // half-open in time; an empty interval has no conflicts
  long size;
  long align = 1;
};

struct Block {
  long size;
  long align = 1;
};

struct PackLimits {
  long search_work = 200'000'000;  // blocks visited by the search, never seconds, so that every rank decides alike; 0
                                   // returns the greedy packing
  long capacity = 0;               // a sufficient peak; the search seeks no lower one
  long tolerance =
      0;  // bytes over the lower bound that are accepted without a search, if also less than a hundredth of the bound
};

struct Packing {
  std::vector<long> offset = {};  // one per block, a multiple of its align
  long peak = 0;                  // largest offset + size
  long lower_bound = 0;  // on the peak of all packings: the most bytes live at once, or a bound proven by a search
  bool optimal = false;  // peak == lower_bound
};

// Takes the best of several greedy orders; then, for up to 4000 blocks, makes a bounded search for a packing at or near
// the lower bound.
Packing pack(std::span<const Interval>, const PackLimits& = {});

// The same for blocks whose conflicts are given as pairs of block numbers, in any order, possibly repeated.
Packing pack(std::span<const Block>, std::span<const std::pair<int, int>> conflicts, const PackLimits& = {});

}  // namespace karez::solve
