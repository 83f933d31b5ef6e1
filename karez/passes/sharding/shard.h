// shard: a layout for every value on every mesh axis, at the least predicted time of a step, with a certificate.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"
#include "karez/passes/sharding/sum_rules.h"
#include "karez/sbp/axis_lower_bounds.h"
#include "karez/sbp/transition.h"

namespace karez::passes {

// How one node may be laid, with the seconds of one device: of its call, or of the transfer between placements that it
// is. Copies, and alike nodes, share the layouts.
struct NodeChoice {
  struct Layouts {
    std::vector<Layout> ins, outs;  // by operand and by result
    auto operator<=>(const Layouts&) const = default;
  };
  std::shared_ptr<const Layouts> layouts;
  double seconds = 0;
  std::shared_ptr<const Sums> sums;  // null where no Partial sum passes or is made
  NodeChoice(Layouts layouts, double seconds)
      : layouts(std::make_shared<const Layouts>(std::move(layouts))),
        seconds(seconds) {}
  const std::vector<Layout>& ins() const { return layouts->ins; }
  const std::vector<Layout>& outs() const { return layouts->outs; }
  const Layout& in(std::size_t operand) const { return layouts->ins[operand]; }
  const Layout& out(std::size_t result) const { return layouts->outs[result]; }
};

// All choices of a node that respect what is fixed (values' layouts, variables' stored layouts); an empty result is an
// error that lists the legal layouts of the value that was fixed otherwise.
std::vector<NodeChoice> choices_of(const Graph& graph, NodeId node, const CostTable& costs);
std::vector<NodeChoice> choices_of(const Graph& graph, NodeId node, const CostTable& costs,
                                   const SumRules& rules);  // the same, for many nodes
using Choices = ById<NodeId, std::vector<NodeChoice>>;
Choices choices_of(const Graph& graph, const CostTable& costs);  // of all nodes, that are worth looking at

// Prices transition trees and remembers them by type: the planner asks for the same few thousand times over.
class TransitionCostCache {
 public:
  explicit TransitionCostCache(CostTable costs) : costs_(std::move(costs)) {}
  TransitionTable& table(const TensorType& type, const Mesh& mesh);
  sbp::AxisLowerBounds& floors(const TensorType& type, const Mesh& mesh);
  void clear_tables() { tables_.clear(); }  // no reference to a table stays good

 private:
  CostTable costs_;
  std::map<std::string, TransitionTable> tables_;
  std::map<std::string, sbp::AxisLowerBounds> floors_;
};

// Seconds of a whole assignment, one choice number per node: what shard minimises, and what a brute force may call.
// +inf where masked sums meet what may not be finite (see sum_rules.h), or a value is wanted in too many layouts.
double assignment_cost(const Graph& graph, const Choices& choices, const ById<NodeId, int>& chosen,
                       TransitionCostCache& prices);
double unchecked_assignment_cost(const Graph& graph, const Choices& choices, const ById<NodeId, int>& chosen,
                                 TransitionCostCache& prices);  // masked sums or not

// Whether the planner says how the caller gets this output: what a `layout` with {planned} makes, before `shard` has
// laid it.
bool is_planned(const Graph& graph, const Output& output);

struct ShardedGraph {
  Graph graph;                      // every value has a layout, every variable a stored one
  double cost = 0, cost_bound = 0;  // seconds: of the choice, and proven lower bound
  bool optimal = false;
  std::string report;  // "optimal" or "gap <= 3.1 %", with the method
  OperandLayouts wanted;
};
ShardedGraph shard(Graph graph, const CostTable& costs);

// The graph with what is fixed in it as it comes to, see sbp::effective: an axis of size 1 takes every layout that a
// longer one would, so that one program runs at every size, and is planned as if nothing were said of it.
Graph with_effective_layouts(Graph graph);

// A graph laid by one choice for every node.
ShardedGraph apply_choices(Graph graph, const Choices& choices, const ById<NodeId, int>& chosen);

// What each node and each value's transfers take in such a graph, in seconds; together its cost.
struct CostBreakdown {
  ById<NodeId, double> calls;
  ById<ValueId, double> moves;
};
CostBreakdown cost_breakdown(const Graph& sharded, const OperandLayouts& wanted, const CostTable& costs);

}  // namespace karez::passes
