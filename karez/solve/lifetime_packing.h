// Offsets for very many memory blocks, whose conflicts are given by lifetimes instead of pairs of blocks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "karez/solve/namespace.h"
#include "karez/solve/packing.h"

namespace karez::solve {

// A block is in use from `begin` to `end` (exclusive), and in the next round until `next_round_end` (exclusive). Two
// blocks are disjoint if they are never in use at the same time; their uses in the next round are not compared with
// each other.
//
//   {2, 5, 0} and {5, 9, 2} are disjoint; {2, 5, 0} and {5, 9, 3} are not, since the second block is still in use at
//   time 2 of the next round
struct BlockLifetime {
  int begin = 0, end = 0, next_round_end = 0;
};

// A numbering of time steps. Lifetimes on a timeline may be longer than the real ones, but never shorter.
struct Timeline {
  int times = 0;                         // lifetimes are within [0, times]
  std::vector<BlockLifetime> lifetimes;  // one per block
};

struct LifetimePacking {
  std::vector<long> offset;  // by block; a multiple of the block's align
  long peak = 0;
  std::int64_t work = 0;  // occupied ranges visited
};

struct LifetimePackingLimits {
  long target_peak = 0;  // no further order is tried once the peak is at most this value
  std::int64_t work_per_block = 1000;
};

// Places blocks one after another, each into the lowest gap that is free during its lifetime. Tries several orders and
// returns the packing with the lowest peak. Two blocks may overlap in memory if they are disjoint on the timeline of
// the block placed later; `timeline_of` has the timeline of each block. The first order is the given one. If the blocks
// are sorted by begin, the timeline of a block needs only the ends of earlier blocks. Further orders are tried while
// the work is less than `work_per_block` per block. If there are few gaps, time grows as blocks * log(times).
LifetimePacking pack(std::span<const Block> blocks, std::span<const Timeline> timelines,
                     std::span<const int> timeline_of, const LifetimePackingLimits& limits = {});

}  // namespace karez::solve
