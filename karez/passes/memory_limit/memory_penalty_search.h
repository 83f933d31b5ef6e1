// Searches for layouts that minimise seconds and what memory is priced at, at one price after the other.
#pragma once

#include <functional>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {

// By node and choice: seconds more.
using MemoryPenalty = std::function<double(const Graph& graph, NodeId node, const NodeChoice& choice)>;

// Of one graph and cost table. Nobody asks for a proof here, so each search is a short one.
class MemoryPenaltySearch {
 public:
  MemoryPenaltySearch(const Graph& graph, const CostTable& costs);

  // Layouts of a small sum; `cost` is theirs without the price. On several axes axis after axis, from the layouts of
  // `from` on.
  ShardedGraph search_from(const MemoryPenalty& price, const ShardedGraph& from);
  // The same on several axes from nothing on, which takes longer and ends elsewhere.
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
