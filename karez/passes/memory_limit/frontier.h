// Layouts between the fastest and the smallest, with memory estimated as a sum over nodes.
#pragma once

#include <vector>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {

// Counts instead of seconds, so that every rank decides alike.
struct FrontierLimits {
  int searches = 10;                     // for layouts, besides the fastest
  std::size_t enumeration_limit = 2048;  // a program with at most this many assignments gets all of them
};

// `fastest` first, then the layouts that are the best at some memory penalty, in the order of their seconds: corners of
// the lower hulls of (seconds, bytes), one hull for each MemoryAccount. They are found from both ends by searching at
// the penalty that makes two neighbours equal, the largest gap first. Bytes are counted at the peak nodes of the
// fastest layouts and of those at a very high penalty. For each there is also a candidate with parameters stored as
// they are read and only the optimiser's state split (ZeRO 1 and 2). No two candidates have the same layouts. The
// frontier does not depend on a limit.
struct Frontier {
  std::vector<ShardedGraph> candidates;
  bool exhaustive = false;  // `candidates` has all assignments of the program
};
Frontier frontier(const Graph& graph, const OpTable& ops, const CostTable& costs, const ShardedGraph& fastest,
                  const FrontierLimits& limits = {});

}  // namespace karez::passes
