// A packing problem in the form that the packing search uses.
#pragma once

#include <vector>

#include "karez/solve/namespace.h"

namespace karez::solve {

struct Block {
  long size;
  long align = 1;
};

// Conflicts are ascending lists; all blocks of a clique conflict with each other.
struct PackProblem {
  std::vector<Block> blocks;
  std::vector<std::vector<int>> conflicts;
  std::vector<std::vector<int>> cliques;  // the total size of a clique is a lower bound on the peak
};

}  // namespace karez::solve
