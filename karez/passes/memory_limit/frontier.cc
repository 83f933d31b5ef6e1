// The hull of time and memory, corner by corner; for very small programs all assignments.
#include "karez/passes/memory_limit/frontier.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "karez/base/interrupt.h"
#include "karez/passes/memory_limit/memory_estimate.h"
#include "karez/passes/memory_limit/memory_penalty_search.h"

namespace karez::passes {
namespace {

constexpr double max_penalty =
    1e4;  // times seconds over bytes of the fastest: so large that time only decides between layouts of equal bytes

struct Corner {
  ShardedGraph laid;
  double bytes = 0;
};

bool laid_alike(const ShardedGraph& a, const ShardedGraph& b) {
  return a.wanted == b.wanted && std::equal(a.graph.values.begin(), a.graph.values.end(), b.graph.values.begin(),
                                            [](const Value& x, const Value& y) { return x.layout == y.layout; });
}

class Hull {
 public:
  Hull(MemoryPenaltySearch& search, MemoryEstimate held) : search_(search), held_(std::move(held)) {}

  std::vector<Corner> run(const ShardedGraph& fastest, int searches) {
    corners_ = {{fastest, held_.of(fastest)}};
    if (searches == 0 || corners_[0].bytes <= 0) return std::move(corners_);
    Corner last = corner_from_scratch(max_penalty * std::max(fastest.cost, 1e-9) / corners_[0].bytes);
    if (!(last.bytes < corners_[0].bytes)) return std::move(corners_);
    corners_.push_back(std::move(last));
    open_ = {true};
    for (int search = 1; search < searches; ++search)
      if (!divide()) break;
    return std::move(corners_);
  }

 private:
  MemoryPenalty of(double price) const {
    return [this, price](const Graph& graph, NodeId n, const NodeChoice& choice) {
      return price * held_.of(graph, n, choice.ins(), choice.outs());
    };
  }
  Corner corner_at(double price, const ShardedGraph& from) {
    check_interrupt();
    Corner made;
    made.laid = search_.search_from(of(price), from);
    made.bytes = held_.of(made.laid);
    return made;
  }
  Corner corner_from_scratch(double price) {
    check_interrupt();
    Corner made;
    made.laid = search_.search_from_scratch(of(price));
    made.bytes = held_.of(made.laid);
    return made;
  }

  // Adds a corner between the two neighbours with the largest rectangle between them; false if no rectangle is left to
  // search.
  bool divide() {
    auto area = [&](std::size_t i) {
      return (corners_[i + 1].laid.cost - corners_[i].laid.cost) * (corners_[i].bytes - corners_[i + 1].bytes);
    };
    std::size_t widest = open_.size();
    for (std::size_t i = 0; i < open_.size(); ++i)
      if (open_[i] && area(i) > 0 && (widest == open_.size() || area(i) > area(widest))) widest = i;
    if (widest == open_.size()) return false;
    const Corner &a = corners_[widest], &b = corners_[widest + 1];
    Corner between = corner_at((b.laid.cost - a.laid.cost) / (a.bytes - b.bytes), a.laid);
    if (!(between.bytes < a.bytes && between.bytes > b.bytes && between.laid.cost < b.laid.cost)) {
      open_[widest] = false;
      return true;
    }
    corners_.insert(corners_.begin() + static_cast<std::ptrdiff_t>(widest) + 1, std::move(between));
    open_.insert(open_.begin() + static_cast<std::ptrdiff_t>(widest), true);
    return true;
  }

  MemoryPenaltySearch& search_;
  MemoryEstimate held_;
  std::vector<Corner> corners_;  // in decreasing order of bytes
  std::vector<bool> open_;       // by corner except the last: whether the gap after it may hold another corner
};

// The same with parameters stored as they are read, if all readers except their updates agree; nullopt otherwise. The
// optimiser's state keeps its layouts. Gathering a parameter before it is read and gathering it after its update
// transfer the same bytes, but the former has it in memory twice, in parts and whole.
std::optional<ShardedGraph> stored_as_read(const Graph& graph, const CostTable& costs, ShardedGraph laid) {
  const auto uses = uses_of(graph);
  bool any = false;
  for (std::size_t v = 0; v < graph.variables.size(); ++v) {
    const Variable& variable = graph.variables[v];
    if (!variable.read.valid() || !variable.updated.valid() || variable.stored || graph.value(variable.read).layout)
      continue;
    std::set<Layout> wanted;
    for (const Use& use : uses[variable.read])
      if (graph.node(use.node).op->role != Role::update)
        wanted.insert(laid.wanted[use.node][static_cast<std::size_t>(use.operand)]);
    if (wanted.size() != 1 || *wanted.begin() == *laid.graph.variables[v].stored) continue;
    if (std::any_of(wanted.begin()->begin(), wanted.begin()->end(), [](Sbp entry) { return entry.is_partial(); }))
      continue;
    laid.graph.variables[v].stored = *wanted.begin();
    laid.graph.value(variable.read).layout = *wanted.begin();
    any = true;
  }
  if (!any) return std::nullopt;
  const CostBreakdown prices = cost_breakdown(laid.graph, laid.wanted, costs);
  laid.cost = std::accumulate(prices.calls.begin(), prices.calls.end(), 0.0) +
              std::accumulate(prices.moves.begin(), prices.moves.end(), 0.0);
  return laid;
}

// All combinations of the nodes' choices.
std::vector<ShardedGraph> all_assignments(const Graph& graph, const Choices& choices, const CostTable& costs) {
  TransitionCostCache prices(costs);
  std::vector<ShardedGraph> made;
  ById<NodeId, int> chosen(graph.nodes.size(), 0);
  while (true) {
    check_interrupt();
    made.push_back(apply_choices(graph, choices, chosen));
    made.back().cost = assignment_cost(graph, choices, chosen, prices);
    if (!std::isfinite(made.back().cost)) made.pop_back();
    int n = 0;
    for (; chosen.has(NodeId(n)) && ++chosen[NodeId(n)] == static_cast<int>(choices[NodeId(n)].size()); ++n)
      chosen[NodeId(n)] = 0;
    if (!chosen.has(NodeId(n))) return made;
  }
}

}  // namespace

Frontier frontier(const Graph& graph, const OpTable& ops, const CostTable& costs, const ShardedGraph& fastest,
                  const FrontierLimits& limits) {
  std::vector<ShardedGraph> made = {fastest};
  auto add = [&](ShardedGraph laid) {
    if (std::none_of(made.begin(), made.end(), [&](const ShardedGraph& other) { return laid_alike(laid, other); }))
      made.push_back(std::move(laid));
  };
  Choices choices;
  std::size_t ways = 1;
  const SumRules rules(graph);
  for (NodeId n : graph.nodes.ids()) {
    if (ways > limits.enumeration_limit) break;
    choices.push_back(choices_of(graph, n, costs, rules));
    ways *= choices[n].size();
  }
  if (ways <= limits.enumeration_limit) {
    for (ShardedGraph& laid : all_assignments(graph, choices, costs))
      if (!laid_alike(laid, fastest)) made.push_back(std::move(laid));
  } else {
    MemoryPenaltySearch search(graph, costs);
    const PeakNodes first = peak_nodes(fastest, ops, costs);
    const auto made_bytes =
        Hull(search, MemoryEstimate(graph, {first}, MemoryAccount::producer_layouts)).run(fastest, limits.searches / 2);
    const PeakNodes last = peak_nodes(made_bytes.back().laid, ops, costs);
    const auto read_bytes = Hull(search, MemoryEstimate(graph, {first, last}, MemoryAccount::consumer_layouts))
                                .run(fastest, limits.searches - limits.searches / 2);
    for (const auto* corners : {&made_bytes, &read_bytes})
      for (const Corner& corner : *corners) add(corner.laid);
    for (std::size_t i = 0, count = made.size(); i < count; ++i)
      if (auto laid = stored_as_read(graph, costs, made[i])) add(std::move(*laid));
  }
  std::stable_sort(made.begin() + 1, made.end(),
                   [](const ShardedGraph& a, const ShardedGraph& b) { return a.cost < b.cost; });
  return {std::move(made), ways <= limits.enumeration_limit};
}

}  // namespace karez::passes
