// The planner's min-sum problem. Its cost tables are the compute seconds of nodes and the transfer seconds of values;
// its minimum is the fastest choice of layouts.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/layout_choices.h"
#include "karez/solve/min_sum.h"

namespace karez::passes {

// The producer of one value, and where the layouts in which the value is required come from.
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

// Given one choice number for every node, targets_of returns the layouts in which a value is required, and
// producer_layout returns the layout in which it is produced.
std::set<Layout> targets_of(const ConsumerLayouts& consumers, const Choices& choices, const ById<NodeId, int>& chosen);
const Layout& producer_layout(const ConsumerLayouts& consumers, const Choices& choices,
                              const ById<NodeId, int>& chosen);

// True if the setup computes the full value on each device. Launches can then use it in any layout without a transfer:
// a split part is a window on the value, and a term of a Partial sum is the value or 0.
bool made_whole_in_setup(const Graph& graph, const ConsumerLayouts& consumers, const Choices& choices);

// A value with several consumers is represented by a chain of tables over the set of layouts requested so far, because
// one table over all consumers would be large. If there are very many sets, the chain tracks only a few layouts. Other
// layouts are either free or forbidden. If they are free, the minimum is a lower bound, since a tree that reaches more
// layouts does not cost less. If they are forbidden, every assignment that remains has its true cost.
enum class ChainOverflow { free, forbidden };

struct LayoutProblem {
  solve::MinSumProblem sum;
  ById<NodeId, int> variable;  // the variable of each node; its states are the node's choices
  double constant = 0;         // the cost of values that no choice changes
  int inexact_values = 0;      // number of values whose cost is not exact; if 0, the minimum is the true cost
};
LayoutProblem layout_problem(const Graph& graph, const Choices& choices, TransitionCostCache& prices,
                             ChainOverflow overflow);

}  // namespace karez::passes
