// A packing problem in the form that the packing search uses.
#pragma once

#include <vector>

#include "karez/solve/namespace.h"

namespace karez::solve {

struct Block {
  long size;       // in bytes
  long align = 1;  // the offset is a multiple of this number
};

struct PackProblem {
  std::vector<Block> blocks;
  std::vector<std::vector<int>> conflicts;  // by block: the blocks that must not overlap with it, ascending
  std::vector<std::vector<int>> cliques;    // sets of blocks that all conflict with each other; the total size of a
                                            // clique is a lower bound on the peak
};

}  // namespace karez::solve
