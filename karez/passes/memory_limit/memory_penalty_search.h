// Searches for layouts that minimise the sum of seconds and a memory penalty, for one penalty after another.
#pragma once

#include <functional>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {

// Returns the additional seconds of a node's choice.
using MemoryPenalty = std::function<double(const Graph& graph, NodeId node, const NodeChoice& choice)>;

// Runs searches for one graph and cost table. No proof of optimality is needed, so each search is short.
class MemoryPenaltySearch {
 public:
  MemoryPenaltySearch(const Graph& graph, const CostTable& costs, const FusedValues& fused = {});

  // Finds layouts with a small sum of seconds and penalty (`price`). The `cost` of the result does not include the
  // penalty. On a mesh with several axes, searches axis after axis, starting with the layouts of `from`.
  ShardedGraph search_from(const MemoryPenalty& price, const ShardedGraph& from);
  // Searches without starting layouts. On a mesh with several axes, this takes longer and gives different results.
  ShardedGraph search_from_scratch(const MemoryPenalty& price);

 private:
  using Chosen = ById<NodeId, int>;
  Choices penalised_choices(const MemoryPenalty& price) const;
  ShardedGraph sharded_graph(const Chosen& chosen);
  Chosen axis_after_axis(const Choices& penalised, Chosen chosen);
  Chosen on_axis(int axis, const Choices& penalised, const Chosen& chosen);
  Chosen choices_matching(const ShardedGraph& sharded_graph) const;

  const Graph& graph_;
  Choices choices_;
  TransitionCostCache prices_;
  int axes_ = 1;
};

}  // namespace karez::passes
