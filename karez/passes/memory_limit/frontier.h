// Layouts between those that take the least time and those that take the least memory, as far as a sum over nodes says
// it.
#pragma once

#include <vector>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {

// Counted, so that every rank decides alike.
struct FrontierLimits {
  int searches = 10;                     // of layouts, beside the fastest
  std::size_t enumeration_limit = 2048;  // a program that can be laid in so few ways is laid in each of them
};

// `fastest` first, then those that are the best at some price of memory, in the order of their seconds: corners of the
// lower hulls of (seconds, bytes), one for each of MemoryEstimate' accounts, found from both ends by searching at the
// price that makes two neighbours equal, where most lies between them first. The moments at which bytes count are the
// fullest of the fastest and of what is best at a very high price. Beside each the same with parameters stored as they
// are read, the optimiser's state in parts (ZeRO 1 and 2). Each is laid otherwise than all others. It depends on no
// limit.
struct Frontier {
  std::vector<ShardedGraph> candidates;
  bool exhaustive = false;  // there is no other way to lay the program
};
Frontier frontier(const Graph& graph, const OpTable& ops, const CostTable& costs, const ShardedGraph& fastest,
                  const FrontierLimits& limits = {});

}  // namespace karez::passes
