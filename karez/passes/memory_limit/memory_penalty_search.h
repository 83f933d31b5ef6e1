// Searches for layouts that minimise seconds plus a memory penalty, for one penalty after the other.
#pragma once

#include <functional>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {

// Additional seconds of a node's choice.
using MemoryPenalty = std::function<double(const Graph& graph, NodeId node, const NodeChoice& choice)>;

// Searches for one graph and cost table. No proof of optimality is needed, so each search is short.
class MemoryPenaltySearch {
 public:
  MemoryPenaltySearch(const Graph& graph, const CostTable& costs);

  // Layouts with a small sum; `cost` leaves out the penalty. On several axes it searches axis after axis, starting with
  // the layouts of `from`.
  ShardedGraph search_from(const MemoryPenalty& price, const ShardedGraph& from);
  // The same without a starting point, which on several axes takes longer and gives other results.
  ShardedGraph search_from_scratch(const MemoryPenalty& price);

 private:
  using Chosen = ById<NodeId, int>;
  Choices penalised_choices(const MemoryPenalty& price) const;
  ShardedGraph laid(const Chosen& chosen);
  Chosen axis_after_axis(const Choices& penalised, Chosen chosen);
  Chosen on_axis(int axis, const Choices& penalised, const Chosen& chosen);
  Chosen choices_matching(const ShardedGraph& laid) const;

  const Graph& graph_;
  Choices choices_;
  TransitionCostCache prices_;
  int axes_ = 1;
};

}  // namespace karez::passes
