// For tests: the minimum peak of a packing, found by placing blocks in every order of their offsets.
#pragma once

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "karez/base/error.h"
#include "karez/solve/namespace.h"
#include "karez/solve/packing.h"

namespace karez::solve {
using Pairs = std::vector<std::pair<int, int>>;

// Finds the minimum peak for more blocks than a search over all orders can handle. Places blocks in the order of their
// offsets, so that no block is below the previous one, and prunes a branch that cannot have a lower peak than the best
// packing. Offsets are in bytes.
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
      if (at + blocks[b].size >= best) return;  // later offsets of the block are not lower
      if (at < low) continue;                   // the block belongs earlier in the order
      offset[b] = at;
      push(at, std::max(peak, at + blocks[b].size), placed + 1);
      offset[b] = -1;
    }
  }
};

// Returns the minimum peak; the peak `reached` is known to be possible.
inline long min_peak(const std::vector<Block>& blocks, const Pairs& conflicts, long reached) {
  ExhaustivePacker all(blocks, conflicts, reached);
  all.push(0, 0, 0);
  return all.best;
}

// Returns the minimum peak over all orders of placing blocks. In an optimal packing, each block in order of offsets can
// be moved down onto the blocks before it, so some order of placing blocks is optimal.
inline long brute_force(const std::vector<Block>& blocks, const Pairs& conflicts) {
  std::vector<int> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<char>> conflict(blocks.size(), std::vector<char>(blocks.size(), 0));
  for (auto [a, b] : conflicts) conflict[a][b] = conflict[b][a] = 1;
  long best = std::numeric_limits<long>::max();
  do {
    std::vector<long> top(blocks.size(), 0);
    long peak = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      long position = 0;
      for (std::size_t j = 0; j < i; ++j)
        if (conflict[order[i]][order[j]]) position = std::max(position, top[order[j]]);
      top[order[i]] = round_up(position, blocks[order[i]].align) + blocks[order[i]].size;
      peak = std::max(peak, top[order[i]]);
    }
    best = std::min(best, peak);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

}  // namespace karez::solve
