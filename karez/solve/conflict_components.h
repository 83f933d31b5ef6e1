// Connected components of the conflict graph of the blocks that a packing search has not placed yet.
#pragma once

#include <vector>

#include "karez/solve/namespace.h"
#include "karez/solve/pack_problem.h"

namespace karez::solve {

// Refers to its arguments. `rank` orders the blocks within a component, `placed` is true for placed blocks, and `work`
// is reduced by the number of conflicts visited.
class ConflictComponents {
 public:
  ConflictComponents(const PackProblem& problem, const std::vector<int>& rank, const std::vector<char>& placed,
                     long& work);

  // Returns the components of `blocks`, which are not placed yet, each in the order of ranks.
  std::vector<std::vector<int>> split(const std::vector<int>& blocks);
  // Returns whether the neighbours of a block that was just placed are still connected with each other; neighbours that
  // are placed do not count. Most neighbours conflict with each other, so the search is short.
  bool remain_connected(int placed_block);

 private:
  const PackProblem& problem_;
  const std::vector<int>& rank_;
  const std::vector<char>& placed_;
  long& work_;
  std::vector<char> mark_;  // by block; 0 between calls
  std::vector<int> reached_;
};

}  // namespace karez::solve
