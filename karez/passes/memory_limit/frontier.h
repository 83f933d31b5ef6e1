// Finds layouts between the fastest and the smallest, with memory estimated as a sum over nodes.
#pragma once

#include <vector>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {

// Limits that are counts and not seconds, so that every rank makes the same decisions.
struct FrontierLimits {
  int searches = 10;                     // searches for layouts, in addition to the fastest layouts
  std::size_t enumeration_limit = 2048;  // all assignments are listed if there are at most this many
};

// The candidates are `fastest` and then, in the order of their seconds, the layouts that are the best at some memory
// penalty: corners of the lower hulls of (seconds, bytes), one hull for each MemoryAccount. Corners are found from both
// ends by searching at the penalty at which two neighbours cost the same, the largest gap first. Bytes are counted at
// the peak nodes of the fastest layouts and of the layouts at a very high penalty. For each corner there is also a
// candidate with parameters stored as they are read and only the optimiser's state split (ZeRO 1 and 2). No two
// candidates have the same layouts. The frontier does not depend on a limit.
struct Frontier {
  std::vector<ShardedGraph> candidates;
  bool exhaustive = false;  // whether `candidates` has all assignments of the program
};
Frontier frontier(const Graph& graph, const OpTable& ops, const CostTable& costs, const ShardedGraph& fastest,
                  const FrontierLimits& limits = {});

}  // namespace karez::passes
