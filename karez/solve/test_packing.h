// For tests: the least peak of a packing, found by placing blocks in every order of their offsets.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "karez/base/error.h"
#include "karez/solve/namespace.h"
#include "karez/solve/packing.h"

namespace karez::solve {
using Pairs = std::vector<std::pair<int, int>>;

// For more blocks than a search over all orders permits: places blocks in order of offsets (no block below the one
// before it), and cuts a branch when it cannot be lower than the best. Offsets are in bytes.
struct ExhaustivePacker {
  const std::vector<Block>& blocks;
  std::vector<std::vector<int>> neighbours;
  std::vector<long> offset;
  long best;

  ExhaustivePacker(const std::vector<Block>& blocks, const Pairs& conflicts, long best)
      : blocks(blocks),
        neighbours(blocks.size()),
        offset(blocks.size(), -1),
        best(best) {
    for (auto [a, b] : conflicts) neighbours[a].push_back(b), neighbours[b].push_back(a);
  }
  void push(long low, long peak, std::size_t placed) {
    if (peak >= best) return;
    if (placed == blocks.size()) {
      best = peak;
      return;
    }
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      if (offset[b] >= 0) continue;
      long at = 0;
      for (int w : neighbours[b])
        if (offset[w] >= 0) at = std::max(at, offset[w] + blocks[w].size);
      at = round_up(at, blocks[b].align);
      if (at + blocks[b].size >= best) return;  // later offsets of it are no lower
      if (at < low) continue;                   // it belongs earlier in the order
      offset[b] = at;
      push(at, std::max(peak, at + blocks[b].size), placed + 1);
      offset[b] = -1;
    }
  }
};

// The least peak, given that `reached` is possible.
inline long min_peak(const std::vector<Block>& blocks, const Pairs& conflicts, long reached) {
  ExhaustivePacker all(blocks, conflicts, reached);
  all.push(0, 0, 0);
  return all.best;
}

}  // namespace karez::solve
