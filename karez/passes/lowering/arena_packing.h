// Packs the buffers of one device so that buffers that are never in use at the same time share memory.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "karez/passes/lowering/arena_buffers.h"
#include "karez/passes/namespace.h"
#include "karez/solve/packing.h"

namespace karez::passes {

struct DevicePacking {
  std::vector<long> offset;  // one for each buffer
  long peak = 0;
};

// Packs by the pairs of buffers that may not share. Devices of a mesh often have equal problems, which are solved once.
class ConflictPacker {
 public:
  DevicePacking pack(const HappensBefore& order, const std::vector<ArenaBuffer>& buffers,
                     const solve::PackLimits& limits);

 private:
  struct SolvedProblem {
    std::vector<solve::Block> blocks;
    std::vector<std::pair<int, int>> conflicts;
    DevicePacking packing;
    bool has_sizes_of(const std::vector<solve::Block>& other) const;
  };
  std::deque<SolvedProblem> solved_;
};

// Packs by lifetimes on clocks, for more than `max_pairwise` buffers. If that wastes much memory and the buffers are
// not too many, packs by pairs too and returns the better packing.
DevicePacking pack_by_clocks(const HappensBefore& order, const std::vector<ArenaBuffer>& buffers,
                             std::size_t max_pairwise);

}  // namespace karez::passes
