// Decides whether blocks fit under a capacity, by depth-first search over packings in which no block could be moved
// down.
#pragma once

#include <vector>

#include "karez/solve/namespace.h"
#include "karez/solve/packing.h"

namespace karez::solve {

// What is to be packed: conflicts as ascending lists, and sets of blocks that all conflict with each other.
struct PackProblem {
  std::vector<Block> blocks;
  std::vector<std::vector<int>> conflicts;
  std::vector<std::vector<int>> cliques;  // each is a lower bound: its sizes must be stacked
};

enum class Feasibility { yes, no, unknown };

// Fits all blocks under `capacity`? `rank` orders blocks at equal height; `work` is spent. On yes, `offset` holds the
// packing. `blame` counts for each block how often a bound failed on it: placed earlier it might have found room.
Feasibility search_packing(const PackProblem&, long capacity, const std::vector<int>& rank, long& work,
                           std::vector<long>& offset, std::vector<long>& blame);

// The same in many turns of bounded work, starting from several ranks; blocks that were blamed come earlier the next
// time.
Feasibility search_with_restarts(const PackProblem&, const std::vector<std::vector<int>>& ranks, long capacity,
                                 long work, std::vector<long>& offset);

}  // namespace karez::solve
