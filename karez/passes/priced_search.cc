// A price on memory changes what single nodes cost and nothing between them.
#include "karez/passes/priced_search.h"

#include <algorithm>

#include "karez/base/interrupt.h"
#include "karez/passes/shard_search.h"

namespace karez::passes {
namespace {

constexpr int most_rounds = 8;  // over the axes
const SearchLimits brief{.passes = 6, .rounds = 6, .cores = 0, .axis_by_axis = false};
const SearchLimits of_one_axis{.passes = 16, .rounds = 8, .cores = 0};

bool alike_but_on(int axis, const std::vector<Layout>& one, const std::vector<Layout>& other) {
  for (std::size_t i = 0; i < one.size(); ++i)
    for (std::size_t a = 0; a < one[i].size(); ++a)
      if (static_cast<int>(a) != axis && one[i][a] != other[i][a]) return false;
  return true;
}

}  // namespace

PricedSearch::PricedSearch(const Graph& graph, const CostTable& costs)
    : graph_(graph),
      choices_(choices_of(graph, costs)),
      prices_(costs) {
  for (const Mesh& mesh : graph.meshes) axes_ = std::max(axes_, mesh.rank());
}

Choices PricedSearch::with(const MemoryPrice& price) const {
  Choices dear = choices_;
  for (NodeId n : graph_.nodes.ids())
    for (NodeChoice& choice : dear[n]) choice.seconds += price(graph_, n, choice);
  return dear;
}

Sharded PricedSearch::at(const MemoryPrice& price, const Sharded& from) {
  const Choices dear = with(price);
  const Chosen chosen =
      axes_ > 1 ? axis_after_axis(dear, like(from)) : search_layouts(graph_, dear, prices_, of_one_axis).chosen;
  return laid(chosen);
}

Sharded PricedSearch::anew(const MemoryPrice& price) {
  SearchLimits limits = of_one_axis;
  if (axes_ > 1) limits.rounds = 0;
  return laid(search_layouts(graph_, with(price), prices_, limits).chosen);
}

Sharded PricedSearch::laid(const Chosen& chosen) {
  Sharded made = laid_by(graph_, choices_, chosen);
  made.cost = passes::price(graph_, choices_, chosen, prices_);
  return made;
}

// Round the axes until nothing moves: each time the best layouts on one axis, those on the others as they are.
PricedSearch::Chosen PricedSearch::axis_after_axis(const Choices& dear, Chosen chosen) {
  double cost = price(graph_, dear, chosen, prices_);
  for (int round = 0, still = 0; still < axes_ && round < most_rounds * axes_; ++round) {
    check_interrupt();
    ++still;
    Chosen other = on_axis(round % axes_, dear, chosen);
    const double now = price(graph_, dear, other, prices_);
    if (!(now < cost * (1 - 1e-12))) continue;
    chosen = std::move(other), cost = now;
    still = 1;
  }
  return chosen;
}

PricedSearch::Chosen PricedSearch::on_axis(int axis, const Choices& dear, const Chosen& chosen) {
  ById<NodeId, std::vector<int>> kept(dear.size());
  Choices few(dear.size());
  for (NodeId n : dear.ids()) {
    const NodeChoice& now = dear[n][static_cast<std::size_t>(chosen[n])];
    for (std::size_t c = 0; c < dear[n].size(); ++c) {
      if (!alike_but_on(axis, dear[n][c].ins(), now.ins()) || !alike_but_on(axis, dear[n][c].outs(), now.outs()))
        continue;
      kept[n].push_back(static_cast<int>(c));
      few[n].push_back(dear[n][c]);
    }
  }
  Chosen best = search_layouts(graph_, few, prices_, brief).chosen;
  for (NodeId n : dear.ids()) best[n] = kept[n][static_cast<std::size_t>(best[n])];
  return best;
}

PricedSearch::Chosen PricedSearch::like(const Sharded& laid) const {
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
