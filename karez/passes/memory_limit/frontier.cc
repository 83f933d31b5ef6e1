// Finds the hull of time and memory, corner by corner; for very small programs, lists all assignments.
#include "karez/passes/memory_limit/frontier.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "karez/base/interrupt.h"
#include "karez/passes/memory_limit/memory_estimate.h"
#include "karez/passes/memory_limit/memory_penalty_search.h"

namespace karez::passes {
namespace {

// The maximum penalty, relative to the seconds per byte of the fastest layouts. It is so large that time decides only
// between layouts of equal bytes.
constexpr double max_penalty = 1e4;

struct Corner {
  ShardedGraph sharded;
  double bytes = 0;
};

bool have_same_layouts(const ShardedGraph& a, const ShardedGraph& b) {
  return a.operand_layouts == b.operand_layouts &&
         std::equal(a.graph.values.begin(), a.graph.values.end(), b.graph.values.begin(),
                    [](const Value& x, const Value& y) { return x.layout == y.layout; });
}

class Hull {
 public:
  Hull(MemoryPenaltySearch& search, MemoryEstimate estimate) : search_(search), estimate_(std::move(estimate)) {}

  std::vector<Corner> run(const ShardedGraph& fastest, int searches) {
    corners_ = {{fastest, estimate_.of(fastest)}};
    if (searches == 0 || corners_[0].bytes <= 0) return std::move(corners_);
    Corner smallest = corner_from_scratch(max_penalty * std::max(fastest.cost, 1e-9) / corners_[0].bytes);
    if (!(smallest.bytes < corners_[0].bytes)) return std::move(corners_);
    corners_.push_back(std::move(smallest));
    has_gap_ = {true};
    for (int search = 1; search < searches; ++search)
      if (!divide()) break;
    return std::move(corners_);
  }

 private:
  MemoryPenalty penalty_at(double price) const {
    return [this, price](const Graph& graph, NodeId n, const NodeChoice& choice) {
      return price * estimate_.of(graph, n, choice.ins(), choice.outs());
    };
  }
  Corner corner_at(double price, const ShardedGraph& from) {
    check_interrupt();
    Corner corner;
    corner.sharded = search_.search_from(penalty_at(price), from);
    corner.bytes = estimate_.of(corner.sharded);
    return corner;
  }
  Corner corner_from_scratch(double price) {
    check_interrupt();
    Corner corner;
    corner.sharded = search_.search_from_scratch(penalty_at(price));
    corner.bytes = estimate_.of(corner.sharded);
    return corner;
  }

  // Searches between the two neighbouring corners with the largest rectangle between them, and adds a corner if one is
  // found.
  // Returns false if no rectangle is left to search.
  bool divide() {
    auto area = [&](std::size_t i) {
      return (corners_[i + 1].sharded.cost - corners_[i].sharded.cost) * (corners_[i].bytes - corners_[i + 1].bytes);
    };
    std::size_t largest = has_gap_.size();
    for (std::size_t i = 0; i < has_gap_.size(); ++i)
      if (has_gap_[i] && area(i) > 0 && (largest == has_gap_.size() || area(i) > area(largest))) largest = i;
    if (largest == has_gap_.size()) return false;
    const Corner &a = corners_[largest], &b = corners_[largest + 1];
    Corner corner = corner_at((b.sharded.cost - a.sharded.cost) / (a.bytes - b.bytes), a.sharded);
    if (!(corner.bytes < a.bytes && corner.bytes > b.bytes && corner.sharded.cost < b.sharded.cost)) {
      has_gap_[largest] = false;
      return true;
    }
    corners_.insert(corners_.begin() + static_cast<std::ptrdiff_t>(largest) + 1, std::move(corner));
    has_gap_.insert(has_gap_.begin() + static_cast<std::ptrdiff_t>(largest), true);
    return true;
  }

  MemoryPenaltySearch& search_;
  MemoryEstimate estimate_;
  std::vector<Corner> corners_;  // in decreasing order of bytes
  std::vector<bool> has_gap_;    // for each corner except the last: true if another corner may follow it
};

// Stores each parameter in the layout in which it is read, if all its readers except the update use the same layout.
// Returns nullopt if no parameter changes. The optimiser's state keeps its layouts. Gathering a parameter before it is
// read transfers as many bytes as gathering it after its update, but needs memory for its part and for the complete
// parameter.
std::optional<ShardedGraph> stored_as_read(const Graph& graph, const CostTable& costs, ShardedGraph sharded) {
  const auto uses = uses_of(graph);
  bool any_changed = false;
  for (std::size_t v = 0; v < graph.variables.size(); ++v) {
    const Variable& variable = graph.variables[v];
    if (!variable.read.valid() || !variable.updated.valid() || variable.stored || graph.value(variable.read).layout)
      continue;
    std::set<Layout> layouts;
    for (const Use& use : uses[variable.read])
      if (graph.node(use.node).op->role != Role::update)
        layouts.insert(sharded.operand_layouts[use.node][static_cast<std::size_t>(use.operand)]);
    if (layouts.size() != 1 || *layouts.begin() == *sharded.graph.variables[v].stored) continue;
    if (std::any_of(layouts.begin()->begin(), layouts.begin()->end(), [](Sbp entry) { return entry.is_partial(); }))
      continue;
    sharded.graph.variables[v].stored = *layouts.begin();
    sharded.graph.value(variable.read).layout = *layouts.begin();
    any_changed = true;
  }
  if (!any_changed) return std::nullopt;
  sharded.cost = total(cost_breakdown(sharded.graph, sharded.operand_layouts, costs, sharded.fused));
  return sharded;
}

// Returns all combinations of the nodes' choices.
std::vector<ShardedGraph> all_assignments(const Graph& graph, const Choices& choices, const CostTable& costs,
                                          const FusedValues& fused) {
  TransitionCostCache prices(costs, fused);
  std::vector<ShardedGraph> assignments;
  ById<NodeId, int> chosen(graph.nodes.size(), 0);
  while (true) {
    check_interrupt();
    assignments.push_back(apply_choices(graph, choices, chosen));
    assignments.back().fused = fused;
    assignments.back().cost = assignment_cost(graph, choices, chosen, prices);
    if (!std::isfinite(assignments.back().cost)) assignments.pop_back();
    int n = 0;
    for (; chosen.has(NodeId(n)) && ++chosen[NodeId(n)] == static_cast<int>(choices[NodeId(n)].size()); ++n)
      chosen[NodeId(n)] = 0;
    if (!chosen.has(NodeId(n))) return assignments;
  }
}

}  // namespace

Frontier frontier(const Graph& graph, const OpTable& ops, const CostTable& costs, const ShardedGraph& fastest,
                  const FrontierLimits& limits) {
  std::vector<ShardedGraph> candidates = {fastest};
  auto add = [&](ShardedGraph sharded) {
    if (std::none_of(candidates.begin(), candidates.end(),
                     [&](const ShardedGraph& candidate) { return have_same_layouts(sharded, candidate); }))
      candidates.push_back(std::move(sharded));
  };
  Choices choices;
  std::size_t assignments = 1;
  const SumRules rules(graph);
  for (NodeId n : graph.nodes.ids()) {
    if (assignments > limits.enumeration_limit) break;
    choices.push_back(choices_of(graph, n, costs, rules, fastest.fused));
    assignments *= choices[n].size();
  }
  if (assignments <= limits.enumeration_limit) {
    for (ShardedGraph& sharded : all_assignments(graph, choices, costs, fastest.fused))
      if (!have_same_layouts(sharded, fastest)) candidates.push_back(std::move(sharded));
  } else {
    MemoryPenaltySearch search(graph, costs, fastest.fused);
    const PeakNodes fastest_peak = peak_nodes(fastest, ops, costs);
    const auto producer_corners = Hull(search, MemoryEstimate(graph, {fastest_peak}, MemoryAccount::producer_layouts))
                                      .run(fastest, limits.searches / 2);
    const PeakNodes smallest_peak = peak_nodes(producer_corners.back().sharded, ops, costs);
    const auto consumer_corners =
        Hull(search, MemoryEstimate(graph, {fastest_peak, smallest_peak}, MemoryAccount::consumer_layouts))
            .run(fastest, limits.searches - limits.searches / 2);
    for (const auto* corners : {&producer_corners, &consumer_corners})
      for (const Corner& corner : *corners) add(corner.sharded);
    for (std::size_t i = 0, count = candidates.size(); i < count; ++i)
      if (auto sharded = stored_as_read(graph, costs, candidates[i])) add(std::move(*sharded));
  }
  std::stable_sort(candidates.begin() + 1, candidates.end(),
                   [](const ShardedGraph& a, const ShardedGraph& b) { return a.cost < b.cost; });
  return {std::move(candidates), assignments <= limits.enumeration_limit};
}

}  // namespace karez::passes
