// Decides whether blocks fit into a capacity, by a depth-first search over the packings in which no block can be moved
// down.
#pragma once

#include <vector>

#include "karez/solve/namespace.h"
#include "karez/solve/pack_problem.h"

namespace karez::solve {

enum class Feasibility { yes, no, unknown };

// Searches for a packing of all blocks within `capacity`. `rank` orders blocks of equal offset; the search decreases
// `work` and stops at 0. If the answer is yes, `offset` has the packing. `failures` counts, for each block, how often a
// bound failed because of this block; the block might have fitted if it had been placed earlier.
Feasibility search_packing(const PackProblem&, long capacity, const std::vector<int>& rank, long& work,
                           std::vector<long>& offset, std::vector<long>& failures);

// Searches in many runs of bounded work, starting from several ranks. Blocks with failures come earlier in the next
// run.
Feasibility search_with_restarts(const PackProblem&, const std::vector<std::vector<int>>& ranks, long capacity,
                                 long work, std::vector<long>& offset);

}  // namespace karez::solve
