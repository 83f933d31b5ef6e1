// The legal layouts of each node with their costs, and the costs of transitions between layouts.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"
#include "karez/passes/sharding/sum_rules.h"
#include "karez/passes/sharding/value_price.h"
#include "karez/sbp/axis_lower_bounds.h"
#include "karez/sbp/transition.h"

namespace karez::passes {

// One choice of layouts for a node, with the seconds that one device takes for its call, without accesses to values
// that fuse, or for its transfer between placements. Copies of a choice share the layouts, and so do equal nodes.
struct NodeChoice {
  struct Layouts {
    std::vector<Layout> ins, outs;  // by operand and by result
    auto operator<=>(const Layouts&) const = default;
  };
  std::shared_ptr<const Layouts> layouts;
  double seconds = 0;
  std::shared_ptr<const Sums> sums;  // null if the node neither makes nor passes a Partial sum
  NodeChoice(Layouts layouts, double seconds)
      : layouts(std::make_shared<const Layouts>(std::move(layouts))),
        seconds(seconds) {}
  const std::vector<Layout>& ins() const { return layouts->ins; }
  const std::vector<Layout>& outs() const { return layouts->outs; }
  const Layout& in(std::size_t operand) const { return layouts->ins[operand]; }
  const Layout& out(std::size_t result) const { return layouts->outs[result]; }
};

// Returns all choices of a node that respect the fixed layouts of values and the stored layouts of variables. If there
// is none, throws an error that lists the legal layouts of the value whose layout is fixed.
std::vector<NodeChoice> choices_of(const Graph& graph, NodeId node, const CostTable& costs,
                                   const FusedValues& fused = {});
std::vector<NodeChoice> choices_of(const Graph& graph, NodeId node, const CostTable& costs, const SumRules& rules,
                                   const FusedValues& fused = {});  // faster for many nodes
using Choices = ById<NodeId, std::vector<NodeChoice>>;
// Returns the choices of all nodes, except those that are never better than another.
Choices choices_of(const Graph& graph, const CostTable& costs, const FusedValues& fused = {});

// The prices of values. Computes the costs of transition trees and caches them by type, because the planner requests
// the same few thousand trees many times.
class TransitionCostCache {
 public:
  explicit TransitionCostCache(CostTable costs, FusedValues fused = {})
      : costs_(std::move(costs)),
        fused_(std::move(fused)) {}
  ValuePrice price_of(const Graph& graph, ValueId value);
  const FusedValues& fused() const { return fused_; }
  TransitionTable& table(const TensorType& type, const Mesh& mesh);
  sbp::AxisLowerBounds& floors(const TensorType& type, const Mesh& mesh);
  void clear_tables() { tables_.clear(), stored_.clear(); }  // invalidates references to tables, and prices

 private:
  CostTable costs_;
  FusedValues fused_;
  std::map<std::string, TransitionTable> tables_;
  std::map<std::pair<TransitionTable*, FusedValue>, std::vector<double>> stored_;
  std::map<std::string, sbp::AxisLowerBounds> floors_;
};

// Returns the seconds that one device takes for the node's call or transfer with these layouts.
double choice_seconds(const Graph& graph, NodeId node, const NodeChoice& choice, const CostTable& costs,
                      const FusedValues& fused = {});

// True if the planner chooses the layout of this output: the output is the result of a `layout` node with {planned},
// and `shard` has not run yet.
bool is_planned(const Graph& graph, const Output& output);

}  // namespace karez::passes
