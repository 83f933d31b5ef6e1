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
struct Life {
  int begin = 0, end = 0, again = 0;
};

// One way to tell time, in which lives may be told longer than they are, never shorter.
struct Clock {
  int times = 0;            // lives lie within 0 and this
  std::vector<Life> lives;  // of every block
};

struct LivesPacking {
  std::vector<long> offset;  // one per block, a multiple of its align
  long peak = 0;
  std::int64_t work = 0;  // stretches of taken bytes looked at
};

struct LivesLimits {
  long enough = 0;  // a peak below which nothing is sought
  std::int64_t work_a_block = 1000;
};

// Blocks are placed one after the other into the lowest gap that is free while they live, by several orders, of which
// the best counts. Apart are two blocks if the clock of the one that is placed later says so; `clock_of` names each
// block's. The first order is that in which they are given: where it is that of begins, a block's own clock need only
// see the ends of those before it. Others are tried while work is less than so much a block. Time grows as blocks times
// the logarithm of their times, while gaps are few.
LivesPacking pack(std::span<const Block> blocks, std::span<const Clock> clocks, std::span<const int> clock_of,
                  const LivesLimits& limits = {});

}  // namespace karez::solve
