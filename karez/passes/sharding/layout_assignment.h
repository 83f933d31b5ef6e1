// One layout choice for every node: its cost, and the graph with these layouts.
#pragma once

#include <string>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/layout_choices.h"

namespace karez::passes {

// Seconds of a whole assignment, one choice number per node: the cost that shard minimises, and that a brute force may
// call. +inf if masked sums meet values that may not be finite (see sum_rules.h), or if a value is required in too many
// layouts.
double assignment_cost(const Graph& graph, const Choices& choices, const ById<NodeId, int>& chosen,
                       TransitionCostCache& prices);
double unchecked_assignment_cost(const Graph& graph, const Choices& choices, const ById<NodeId, int>& chosen,
                                 TransitionCostCache& prices);  // without a check of masked sums

struct ShardedGraph {
  Graph graph;                      // every value has a layout, every variable a stored one
  double cost = 0, cost_bound = 0;  // seconds: of the choice, and proven lower bound
  bool optimal = false;
  std::string report;  // "optimal" or "gap <= 3.1 %", with the method
  OperandLayouts wanted;
};

// The graph with the layouts of one choice for every node.
ShardedGraph apply_choices(Graph graph, const Choices& choices, const ById<NodeId, int>& chosen);

// Seconds of each node and of each value's transfers in such a graph; their sum is its cost.
struct CostBreakdown {
  ById<NodeId, double> calls;
  ById<ValueId, double> moves;
};
CostBreakdown cost_breakdown(const Graph& sharded, const OperandLayouts& wanted, const CostTable& costs);

}  // namespace karez::passes
