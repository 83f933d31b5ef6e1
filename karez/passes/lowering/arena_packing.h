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
  std::vector<long> offset;  // in bytes, one for each buffer
  long peak = 0;             // total bytes
};

// Packs by the pairs of buffers that must not share memory. Devices of a mesh often have equal problems; equal problems
// are solved only once.
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

// Packs by lifetimes on clocks (lifetime_clocks.h); used for more than `max_pairwise` buffers. If this wastes much
// memory and there are not too many buffers, also packs by pairs and returns the smaller packing.
DevicePacking pack_by_clocks(const HappensBefore& order, const std::vector<ArenaBuffer>& buffers,
                             std::size_t max_pairwise);

}  // namespace karez::passes
