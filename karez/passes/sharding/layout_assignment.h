// The cost of one layout choice for every node, and the graph with these layouts.
#pragma once

#include <string>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/layout_choices.h"

namespace karez::passes {

// Returns the seconds of a complete assignment, which has one choice number per node. This is the cost that shard
// minimises; brute-force tests also call it. It is +inf if masked sums meet values that may not be finite (see
// sum_rules.h), or if a value is required in too many layouts.
double assignment_cost(const Graph& graph, const Choices& choices, const ById<NodeId, int>& chosen,
                       TransitionCostCache& prices);
double unchecked_assignment_cost(const Graph& graph, const Choices& choices, const ById<NodeId, int>& chosen,
                                 TransitionCostCache& prices);  // without a check of masked sums

struct ShardedGraph {
  Graph graph;                      // every value has a layout, and every variable has a stored layout
  double cost = 0, cost_bound = 0;  // seconds of the chosen assignment, and a proven lower bound for all assignments
  bool optimal = false;
  std::string report;  // "optimal" or "gap <= 3.1 %", with the method
  OperandLayouts operand_layouts;
  FusedValues fused;  // with which the cost was computed
};

// Returns the graph with the layouts of one choice for every node.
ShardedGraph apply_choices(Graph graph, const Choices& choices, const ById<NodeId, int>& chosen);

// Seconds of each node and of each value's transfers in a sharded graph; their sum is the cost of the graph. If a value
// could fuse but is required in other layouts, the accesses to its memory count for its producer.
struct CostBreakdown {
  ById<NodeId, double> calls;
  ById<ValueId, double> moves;
};
CostBreakdown cost_breakdown(const Graph& sharded, const OperandLayouts& operand_layouts, const CostTable& costs,
                             const FusedValues& fused = {});
double total(const CostBreakdown& prices);

}  // namespace karez::passes
