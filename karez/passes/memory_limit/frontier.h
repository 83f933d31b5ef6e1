// Finds layouts between the fastest and the smallest, with memory estimated as a sum over nodes.
#pragma once

#include <vector>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {

// Limits that are counts and not seconds, so that every rank makes the same decisions.
struct FrontierLimits {
  int searches = 10;                     // searches for layouts, in addition to the fastest layouts
  std::size_t enumeration_limit = 2048;  // all assignments are candidates if there are at most this many
};

// The first candidate is `fastest`; the others follow in the order of their seconds. If a program has few assignments,
// all of them are candidates. Otherwise the candidates are corners of the lower hulls of (seconds, bytes), with one
// hull for each MemoryAccount. A corner has the smallest sum of seconds and memory penalty, for some penalty per byte.
// The search begins with both ends of a hull. Then it repeatedly takes the two neighbours with the largest gap, and
// searches at the penalty at which these two have the same sum. Bytes are counted at the peak nodes of the fastest
// layouts and of the layouts at a very high penalty. Each corner also gives a candidate in which parameters are stored
// as they are read and only the optimiser's state is split (ZeRO 1 and 2). No two candidates have the same layouts. The
// frontier does not depend on a memory limit.
struct Frontier {
  std::vector<ShardedGraph> candidates;
  bool exhaustive = false;  // true if `candidates` contains all assignments of the program
};
Frontier frontier(const Graph& graph, const OpTable& ops, const CostTable& costs, const ShardedGraph& fastest,
                  const FrontierLimits& limits = {});

}  // namespace karez::passes
