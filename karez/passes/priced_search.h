// Searches for layouts that minimise seconds and what memory is priced at, at one price after the other.
#pragma once

#include <functional>

#include "karez/passes/namespace.h"
#include "karez/passes/shard.h"

namespace karez::passes {

// By node and choice: seconds more.
using MemoryPrice = std::function<double(const Graph& graph, NodeId node, const NodeChoice& choice)>;

// Of one graph and cost table. Nobody asks for a proof here, so each search is a short one.
class PricedSearch {
 public:
  PricedSearch(const Graph& graph, const CostTable& costs);

  // Layouts of a small sum; `cost` is theirs without the price. On several axes axis after axis, from the layouts of
  // `from` on.
  Sharded at(const MemoryPrice& price, const Sharded& from);
  // The same on several axes from nothing on, which takes longer and ends elsewhere.
  Sharded anew(const MemoryPrice& price);

 private:
  using Chosen = ById<NodeId, int>;
  Choices with(const MemoryPrice& price) const;
  Sharded laid(const Chosen& chosen);
  Chosen axis_after_axis(const Choices& dear, Chosen chosen);
  Chosen on_axis(int axis, const Choices& dear, const Chosen& chosen);
  Chosen like(const Sharded& laid) const;

  const Graph& graph_;
  Choices choices_;
  TreePrices prices_;
  int axes_ = 1;
};

}  // namespace karez::passes
