// The planner's min-sum problem, which has compute seconds by node and transfer seconds by value. Its minimum is the
// best choice of layouts.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/layout_choices.h"
#include "karez/solve/min_sum.h"

namespace karez::passes {

// The producer of one value and the layouts in which it is required, as functions of the nodes' choices.
struct ConsumerLayouts {
  NodeId producer;
  int output = 0;
  std::vector<Use> uses;
  std::vector<Layout> outputs;               // layouts required by outputs of the graph
  std::vector<NodeId> stored_as_outputs_of;  // `variable` nodes of variables that the value updates; they require the
                                             // value in the layout of the node's output
  std::vector<Layout> stored;                // layouts required by variables with a fixed layout
};
ById<ValueId, ConsumerLayouts> consumer_layouts(const Graph& graph);

// For one value and a choice number for every node, the layouts in which the value is required, and the layout in which
// it is produced.
std::set<Layout> targets_of(const ConsumerLayouts& consumers, const Choices& choices, const ById<NodeId, int>& chosen);
const Layout& producer_layout(const ConsumerLayouts& consumers, const Choices& choices,
                              const ById<NodeId, int>& chosen);

// True if the set-up computes the full value on each device. Launches can then use any layout of it: a part is a
// window, or 0 as a part of a sum.
bool made_whole_in_setup(const Graph& graph, const ConsumerLayouts& consumers, const Choices& choices);

// A value with several consumers is a chain of tables over the set of layouts requested so far, because one table over
// all consumers would be large. If there are very many sets, the chain tracks only a few layouts. A layout beyond these
// is free, which keeps the minimum a lower bound (a tree that reaches more layouts does not cost less), or forbidden,
// which keeps every cost true.
enum class ChainOverflow { free, forbidden };

struct LayoutProblem {
  solve::MinSumProblem sum;
  ById<NodeId, int> variable;  // the variable of each node, whose states are the choices
  double constant = 0;         // the cost of values that no choice changes
  int inexact_values = 0;      // values without an exact cost; if there are none, the minimum is the cost itself
};
LayoutProblem layout_problem(const Graph& graph, const Choices& choices, TransitionCostCache& prices,
                             ChainOverflow overflow);

}  // namespace karez::passes
