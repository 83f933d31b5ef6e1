// A memory penalty changes the costs of single nodes, and no cost between nodes.
#include "karez/passes/memory_limit/memory_penalty_search.h"

#include <algorithm>

#include "karez/base/interrupt.h"
#include "karez/passes/sharding/shard_search.h"

namespace karez::passes {
namespace {

constexpr int max_rounds = 8;  // over the axes
const SearchLimits brief{.passes = 6, .rounds = 6, .reduced_problems = 0, .axis_by_axis = false};
const SearchLimits of_one_axis{.passes = 16, .rounds = 8, .reduced_problems = 0};

bool equal_except_on_axis(int axis, const std::vector<Layout>& one, const std::vector<Layout>& other) {
  for (std::size_t i = 0; i < one.size(); ++i)
    for (std::size_t a = 0; a < one[i].size(); ++a)
      if (static_cast<int>(a) != axis && one[i][a] != other[i][a]) return false;
  return true;
}

}  // namespace

MemoryPenaltySearch::MemoryPenaltySearch(const Graph& graph, const CostTable& costs)
    : graph_(graph),
      choices_(choices_of(graph, costs)),
      prices_(costs) {
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
                                  : search_layouts(graph_, penalised, prices_, of_one_axis).chosen;
  return laid(chosen);
}

ShardedGraph MemoryPenaltySearch::search_from_scratch(const MemoryPenalty& price) {
  SearchLimits limits = of_one_axis;
  if (axes_ > 1) limits.rounds = 0;
  return laid(search_layouts(graph_, penalised_choices(price), prices_, limits).chosen);
}

ShardedGraph MemoryPenaltySearch::laid(const Chosen& chosen) {
  ShardedGraph made = apply_choices(graph_, choices_, chosen);
  made.cost = passes::assignment_cost(graph_, choices_, chosen, prices_);
  return made;
}

// Cycles through the axes until nothing changes: each time it takes the best layouts on one axis and keeps the other
// axes.
MemoryPenaltySearch::Chosen MemoryPenaltySearch::axis_after_axis(const Choices& penalised, Chosen chosen) {
  double cost = assignment_cost(graph_, penalised, chosen, prices_);
  for (int round = 0, still = 0; still < axes_ && round < max_rounds * axes_; ++round) {
    check_interrupt();
    ++still;
    Chosen other = on_axis(round % axes_, penalised, chosen);
    const double now = assignment_cost(graph_, penalised, other, prices_);
    if (!(now < cost * (1 - 1e-12))) continue;
    chosen = std::move(other), cost = now;
    still = 1;
  }
  return chosen;
}

MemoryPenaltySearch::Chosen MemoryPenaltySearch::on_axis(int axis, const Choices& penalised, const Chosen& chosen) {
  ById<NodeId, std::vector<int>> kept(penalised.size());
  Choices few(penalised.size());
  for (NodeId n : penalised.ids()) {
    const NodeChoice& now = penalised[n][static_cast<std::size_t>(chosen[n])];
    for (std::size_t c = 0; c < penalised[n].size(); ++c) {
      if (!equal_except_on_axis(axis, penalised[n][c].ins(), now.ins()) ||
          !equal_except_on_axis(axis, penalised[n][c].outs(), now.outs()))
        continue;
      kept[n].push_back(static_cast<int>(c));
      few[n].push_back(penalised[n][c]);
    }
  }
  Chosen best = search_layouts(graph_, few, prices_, brief).chosen;
  for (NodeId n : penalised.ids()) best[n] = kept[n][static_cast<std::size_t>(best[n])];
  return best;
}

MemoryPenaltySearch::Chosen MemoryPenaltySearch::choices_matching(const ShardedGraph& laid) const {
  Chosen chosen;
  for (NodeId n : graph_.nodes.ids()) {
    std::vector<Layout> outs;
    for (ValueId out : laid.graph.node(n).outputs) outs.push_back(*laid.graph.value(out).layout);
    const auto found = std::find_if(choices_[n].begin(), choices_[n].end(), [&](const NodeChoice& choice) {
      return choice.ins() == laid.wanted[n] && choice.outs() == outs;
    });
    chosen.push_back(found == choices_[n].end() ? 0 : static_cast<int>(found - choices_[n].begin()));
  }
  return chosen;
}

}  // namespace karez::passes
