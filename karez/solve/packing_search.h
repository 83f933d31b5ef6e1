// Decides whether blocks fit into a capacity, by depth-first search over packings in which no block can be moved down.
#pragma once

#include <vector>

#include "karez/solve/namespace.h"
#include "karez/solve/packing.h"

namespace karez::solve {

// A packing problem: conflicts as ascending lists, and cliques of blocks that all conflict with each other.
struct PackProblem {
  std::vector<Block> blocks;
  std::vector<std::vector<int>> conflicts;
  std::vector<std::vector<int>> cliques;  // the total size of each is a lower bound
};

enum class Feasibility { yes, no, unknown };

// True if all blocks fit into `capacity`. `rank` orders blocks of equal offset; the search decreases `work` and stops
// at 0. On yes, `offset` has the packing. `blame` counts for each block how often a bound failed on it; placed earlier,
// it might have fitted.
Feasibility search_packing(const PackProblem&, long capacity, const std::vector<int>& rank, long& work,
                           std::vector<long>& offset, std::vector<long>& blame);

// The same in many runs of bounded work, starting from several ranks; blocks with blame come earlier in the next run.
Feasibility search_with_restarts(const PackProblem&, const std::vector<std::vector<int>>& ranks, long capacity,
                                 long work, std::vector<long>& offset);

}  // namespace karez::solve
