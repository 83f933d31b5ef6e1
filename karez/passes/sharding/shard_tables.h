// The planner's sum of tables: compute seconds by node, transfer seconds by value. Its minimum is the best choice of
// layouts.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"
#include "karez/solve/min_sum.h"

namespace karez::passes {

// What one value asks: who makes it, in which layouts it is wanted, as functions of the nodes' choices.
struct ConsumerLayouts {
  NodeId producer;
  int output = 0;
  std::vector<Use> uses;
  std::vector<Layout> outputs;               // of the graph: it goes to these
  std::vector<NodeId> stored_as_outputs_of;  // of variables that it updates: it goes to the layouts of these nodes'
                                             // outputs (their `variable` nodes)
  std::vector<Layout> stored;                // or to these
};
ById<ValueId, ConsumerLayouts> consumer_layouts(const Graph& graph);

// Of one value, where every node's choice is known by its number: the layouts it goes to, and the one it is made in.
std::set<Layout> targets_of(const ConsumerLayouts& consumers, const Choices& choices, const ById<NodeId, int>& chosen);
const Layout& producer_layout(const ConsumerLayouts& consumers, const Choices& choices,
                              const ById<NodeId, int>& chosen);

// Whether the set-up makes the value whole on each device: then launches take any layout of it as a window, or 0 as a
// part of a sum.
bool made_whole_in_setup(const Graph& graph, const ConsumerLayouts& consumers, const Choices& choices);

// A value of several consumers is a chain of tables over the set of layouts asked for so far, for one table over all
// consumers would be large. Where there are very many sets, the chain remembers few layouts. One more than it remembers
// is free, which keeps the minimum a lower bound (a tree that reaches more costs no less), or it is forbidden, which
// keeps every price true.
enum class ChainOverflow { free, forbidden };

struct LayoutProblem {
  solve::MinSumProblem sum;
  ById<NodeId, int> variable;  // of each node; its states are the choices
  double constant = 0;         // of values whose price no choice changes
  int inexact_values = 0;  // values that are not priced exactly; where there are none, the minimum is the price itself
};
LayoutProblem layout_problem(const Graph& graph, const Choices& choices, TransitionCostCache& prices,
                             ChainOverflow overflow);

}  // namespace karez::passes
