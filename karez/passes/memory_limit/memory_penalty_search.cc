// Adds the memory penalty to the cost of each node's choice and searches; costs between nodes do not change.
#include "karez/passes/memory_limit/memory_penalty_search.h"

#include <algorithm>

#include "karez/base/interrupt.h"
#include "karez/passes/sharding/shard_search.h"

namespace karez::passes {
namespace {

constexpr int max_rounds = 8;  // maximum number of rounds over the axes
const SearchLimits axis_limits{.passes = 6, .rounds = 6, .reduced_problems = 0, .axis_by_axis = false};
const SearchLimits full_limits{.passes = 16, .rounds = 8, .reduced_problems = 0};

bool equal_except_on_axis(int axis, const std::vector<Layout>& one, const std::vector<Layout>& other) {
  for (std::size_t i = 0; i < one.size(); ++i)
    for (std::size_t a = 0; a < one[i].size(); ++a)
      if (static_cast<int>(a) != axis && one[i][a] != other[i][a]) return false;
  return true;
}

}  // namespace

MemoryPenaltySearch::MemoryPenaltySearch(const Graph& graph, const CostTable& costs, const FusedValues& fused)
    : graph_(graph),
      choices_(choices_of(graph, costs, fused)),
      prices_(costs, fused) {
  for (const Mesh& mesh : graph.meshes) axes_ = std::max(axes_, mesh.rank());
}

Choices MemoryPenaltySearch::penalised_choices(const MemoryPenalty& price) const {
  Choices penalised = choices_;
  for (NodeId n : graph_.nodes.ids())
    for (NodeChoice& choice : penalised[n]) choice.seconds += price(graph_, n, choice);
  return penalised;
}

ShardedGraph MemoryPenaltySearch::search_from(const MemoryPenalty& price, const ShardedGraph& from) {
  const Choices penalised = penalised_choices(price);
  const Chosen chosen = axes_ > 1 ? axis_after_axis(penalised, choices_matching(from))
                                  : search_layouts(graph_, penalised, prices_, full_limits).chosen;
  return sharded_graph(chosen);
}

ShardedGraph MemoryPenaltySearch::search_from_scratch(const MemoryPenalty& price) {
  SearchLimits limits = full_limits;
  if (axes_ > 1) limits.rounds = 0;
  return sharded_graph(search_layouts(graph_, penalised_choices(price), prices_, limits).chosen);
}

ShardedGraph MemoryPenaltySearch::sharded_graph(const Chosen& chosen) {
  ShardedGraph result = apply_choices(graph_, choices_, chosen);
  result.fused = prices_.fused();
  result.cost = passes::assignment_cost(graph_, choices_, chosen, prices_);
  return result;
}

// Cycles through the axes until nothing changes. Each step searches for the best layouts on one axis and keeps the
// layouts on the other axes.
MemoryPenaltySearch::Chosen MemoryPenaltySearch::axis_after_axis(const Choices& penalised, Chosen chosen) {
  double cost = assignment_cost(graph_, penalised, chosen, prices_);
  for (int round = 0, unchanged_axes = 0; unchanged_axes < axes_ && round < max_rounds * axes_; ++round) {
    check_interrupt();
    ++unchanged_axes;
    Chosen trial = on_axis(round % axes_, penalised, chosen);
    const double trial_cost = assignment_cost(graph_, penalised, trial, prices_);
    if (!(trial_cost < cost * (1 - 1e-12))) continue;
    chosen = std::move(trial), cost = trial_cost;
    unchanged_axes = 1;
  }
  return chosen;
}

MemoryPenaltySearch::Chosen MemoryPenaltySearch::on_axis(int axis, const Choices& penalised, const Chosen& chosen) {
  ById<NodeId, std::vector<int>> kept_choices(penalised.size());
  Choices axis_choices(penalised.size());
  for (NodeId n : penalised.ids()) {
    const NodeChoice& current = penalised[n][static_cast<std::size_t>(chosen[n])];
    for (std::size_t c = 0; c < penalised[n].size(); ++c) {
      if (!equal_except_on_axis(axis, penalised[n][c].ins(), current.ins()) ||
          !equal_except_on_axis(axis, penalised[n][c].outs(), current.outs()))
        continue;
      kept_choices[n].push_back(static_cast<int>(c));
      axis_choices[n].push_back(penalised[n][c]);
    }
  }
  Chosen result = search_layouts(graph_, axis_choices, prices_, axis_limits).chosen;
  for (NodeId n : penalised.ids()) result[n] = kept_choices[n][static_cast<std::size_t>(result[n])];
  return result;
}

MemoryPenaltySearch::Chosen MemoryPenaltySearch::choices_matching(const ShardedGraph& sharded_graph) const {
  Chosen chosen;
  for (NodeId n : graph_.nodes.ids()) {
    std::vector<Layout> outs;
    for (ValueId out : sharded_graph.graph.node(n).outputs) outs.push_back(*sharded_graph.graph.value(out).layout);
    const auto found = std::find_if(choices_[n].begin(), choices_[n].end(), [&](const NodeChoice& choice) {
      return choice.ins() == sharded_graph.operand_layouts[n] && choice.outs() == outs;
    });
    chosen.push_back(found == choices_[n].end() ? 0 : static_cast<int>(found - choices_[n].begin()));
  }
  return chosen;
}

}  // namespace karez::passes
