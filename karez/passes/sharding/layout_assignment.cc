// Adds up the cost of an assignment (one choice for every node), and applies the assignment to the graph.
#include "karez/passes/sharding/layout_assignment.h"

#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "karez/passes/sharding/shard_sums.h"
#include "karez/passes/sharding/shard_tables.h"

namespace karez::passes {
namespace {

struct ValueSeconds {
  double transfers = 0;
  double accesses = 0;  // to a value that could fuse
};

// Returns the price of one value; transfers take +inf if the value is required in more layouts than a transition tree
// supports.
ValueSeconds value_seconds(const Graph& graph, ValueId value, const ConsumerLayouts& layouts_of_value,
                           const Choices& choices, const ById<NodeId, int>& chosen, TransitionCostCache& prices) {
  if (made_whole_in_setup(graph, layouts_of_value, choices)) return {};
  const std::set<Layout> targets = targets_of(layouts_of_value, choices, chosen);
  if (targets.size() > 16) return {INFINITY, 0};
  const ValuePrice price = prices.price_of(graph, value);
  TransitionTable& table = price.table();
  int set = 0;
  for (const Layout& target : targets) set = table.with(set, table.number(target));
  const int from = table.number(producer_layout(layouts_of_value, choices, chosen));
  return {price.transfer_seconds(from, set), price.access_seconds(from, set)};
}

}  // namespace

double assignment_cost(const Graph& graph, const Choices& choices, const ById<NodeId, int>& chosen,
                       TransitionCostCache& prices) {
  return first_unsound(graph, choices, chosen, prices).valid()
             ? INFINITY
             : unchecked_assignment_cost(graph, choices, chosen, prices);
}

double unchecked_assignment_cost(const Graph& graph, const Choices& choices, const ById<NodeId, int>& chosen,
                                 TransitionCostCache& prices) {
  double total = 0;
  for (NodeId n : choices.ids()) total += choices[n][static_cast<std::size_t>(chosen[n])].seconds;
  auto consumers = consumer_layouts(graph);
  for (ValueId v : consumers.ids()) {
    const ValueSeconds seconds = value_seconds(graph, v, consumers[v], choices, chosen, prices);
    total += seconds.transfers + seconds.accesses;
  }
  return total;
}

ShardedGraph apply_choices(Graph graph, const Choices& choices, const ById<NodeId, int>& chosen) {
  ShardedGraph result;
  result.operand_layouts.resize(graph.nodes.size());
  for (NodeId n : graph.nodes.ids()) {
    const NodeChoice& choice = choices[n][static_cast<std::size_t>(chosen[n])];
    for (std::size_t i = 0; i < graph.nodes[n].inputs.size(); ++i) result.operand_layouts[n].push_back(choice.in(i));
    for (std::size_t o = 0; o < graph.nodes[n].outputs.size(); ++o)
      graph.value(graph.nodes[n].outputs[o]).layout = choice.out(o);
  }
  for (Output& output : graph.outputs)
    if (is_planned(graph, output)) output.layout = graph.value(output.value).layout;
  for (Variable& variable : graph.variables)
    if (!variable.stored)
      variable.stored = variable.read.valid() ? *graph.value(variable.read).layout
                                              : broadcast_layout(graph.meshes[static_cast<std::size_t>(variable.mesh)]);
  result.graph = std::move(graph);
  return result;
}

CostBreakdown cost_breakdown(const Graph& sharded, const OperandLayouts& operand_layouts, const CostTable& costs,
                             const FusedValues& fused) {
  CostBreakdown out;
  Choices choices;
  for (NodeId n : sharded.nodes.ids()) {
    NodeChoice::Layouts layouts{operand_layouts[n], {}};
    for (ValueId result : sharded.node(n).outputs) layouts.outs.push_back(*sharded.value(result).layout);
    NodeChoice choice(std::move(layouts), 0);
    choice.seconds = sharded.node(n).acts * choice_seconds(sharded, n, choice, costs, fused);
    out.calls.push_back(choice.seconds);
    choices.push_back({std::move(choice)});
  }
  TransitionCostCache prices(costs, fused);
  const ById<NodeId, int> single_choice(sharded.nodes.size(), 0);
  const auto consumers = consumer_layouts(sharded);
  for (ValueId v : consumers.ids()) {
    const ValueSeconds seconds = value_seconds(sharded, v, consumers[v], choices, single_choice, prices);
    out.moves.push_back(seconds.transfers);
    out.calls[sharded.value(v).producer] += seconds.accesses;
  }
  return out;
}

double total(const CostBreakdown& prices) {
  return std::accumulate(prices.calls.begin(), prices.calls.end(), 0.0) +
         std::accumulate(prices.moves.begin(), prices.moves.end(), 0.0);
}

}  // namespace karez::passes
