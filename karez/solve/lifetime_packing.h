// Offsets for very many blocks: who may not overlap is told by times in place of pairs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "karez/solve/namespace.h"
#include "karez/solve/packing.h"

namespace karez::solve {

// In use from `begin` to before `end`, and in the next round until before `again`. Two blocks are apart if neither is
// in use while the other is, where times of two next rounds do not meet.
//
//   {2, 5, 0} and {5, 9, 2} are apart, {2, 5, 0} and {5, 9, 3} are not: the latter is in use when the next round comes
//   to 2
struct BlockLifetime {
  int begin = 0, end = 0, next_round_end = 0;
};

// One way to tell time, in which lives may be told longer than they are, never shorter.
struct Timeline {
  int times = 0;                         // lives lie within 0 and this
  std::vector<BlockLifetime> lifetimes;  // of every block
};

struct LifetimePacking {
  std::vector<long> offset;  // one per block, a multiple of its align
  long peak = 0;
  std::int64_t work = 0;  // stretches of taken bytes looked at
};

struct LifetimePackingLimits {
  long target_peak = 0;  // a peak below which nothing is sought
  std::int64_t work_per_block = 1000;
};

// Blocks are placed one after the other into the lowest gap that is free while they live, by several orders, of which
// the best counts. Apart are two blocks if the clock of the one that is placed later says so; `timeline_of` names each
// block's. The first order is that in which they are given: where it is that of begins, a block's own clock need only
// see the ends of those before it. Others are tried while work is less than so much a block. Time grows as blocks times
// the logarithm of their times, while gaps are few.
LifetimePacking pack(std::span<const Block> blocks, std::span<const Timeline> timelines,
                     std::span<const int> timeline_of, const LifetimePackingLimits& limits = {});

}  // namespace karez::solve
