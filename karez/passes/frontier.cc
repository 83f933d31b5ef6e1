// The hull of time and memory, corner by corner; of very small programs all ways to lay them.
#include "karez/passes/frontier.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "karez/base/interrupt.h"
#include "karez/passes/held_bytes.h"
#include "karez/passes/priced_search.h"

namespace karez::passes {
namespace {

constexpr double dear =
    1e4;  // times seconds over bytes of the fastest: where time only decides among those that take as few bytes

struct Corner {
  Sharded laid;
  double bytes = 0;
};

bool laid_alike(const Sharded& a, const Sharded& b) {
  return a.wanted == b.wanted && std::equal(a.graph.values.begin(), a.graph.values.end(), b.graph.values.begin(),
                                            [](const Value& x, const Value& y) { return x.layout == y.layout; });
}

class Hull {
 public:
  Hull(PricedSearch& search, HeldBytes held) : search_(search), held_(std::move(held)) {}

  std::vector<Corner> run(const Sharded& fastest, int searches) {
    corners_ = {{fastest, held_.of(fastest)}};
    if (searches == 0 || corners_[0].bytes <= 0) return std::move(corners_);
    Corner last = anew_at(dear * std::max(fastest.cost, 1e-9) / corners_[0].bytes);
    if (!(last.bytes < corners_[0].bytes)) return std::move(corners_);
    corners_.push_back(std::move(last));
    open_ = {true};
    for (int search = 1; search < searches; ++search)
      if (!divide()) break;
    return std::move(corners_);
  }

 private:
  MemoryPrice of(double price) const {
    return [this, price](const Graph& graph, NodeId n, const NodeChoice& choice) {
      return price * held_.of(graph, n, choice.ins(), choice.outs());
    };
  }
  Corner at(double price, const Sharded& from) {
    check_interrupt();
    Corner made;
    made.laid = search_.at(of(price), from);
    made.bytes = held_.of(made.laid);
    return made;
  }
  Corner anew_at(double price) {
    check_interrupt();
    Corner made;
    made.laid = search_.anew(of(price));
    made.bytes = held_.of(made.laid);
    return made;
  }

  // A corner between the two neighbours with the largest rectangle between them; false where none is left to be looked
  // into.
  bool divide() {
    auto area = [&](std::size_t i) {
      return (corners_[i + 1].laid.cost - corners_[i].laid.cost) * (corners_[i].bytes - corners_[i + 1].bytes);
    };
    std::size_t widest = open_.size();
    for (std::size_t i = 0; i < open_.size(); ++i)
      if (open_[i] && area(i) > 0 && (widest == open_.size() || area(i) > area(widest))) widest = i;
    if (widest == open_.size()) return false;
    const Corner &a = corners_[widest], &b = corners_[widest + 1];
    Corner between = at((b.laid.cost - a.laid.cost) / (a.bytes - b.bytes), a.laid);
    if (!(between.bytes < a.bytes && between.bytes > b.bytes && between.laid.cost < b.laid.cost)) {
      open_[widest] = false;
      return true;
    }
    corners_.insert(corners_.begin() + static_cast<std::ptrdiff_t>(widest) + 1, std::move(between));
    open_.insert(open_.begin() + static_cast<std::ptrdiff_t>(widest), true);
    return true;
  }

  PricedSearch& search_;
  HeldBytes held_;
  std::vector<Corner> corners_;  // ever fewer bytes
  std::vector<bool> open_;       // by corner but the last: what lies behind it was not searched in vain
};

// The same with parameters stored as they are read, where all that read them but their updates agree; else nothing.
// State of the optimiser stays as it is: what is put together before it is read and what is put together behind its
// update travels as far, but the one lies there twice, in parts and whole.
std::optional<Sharded> stored_as_read(const Graph& graph, const CostTable& costs, Sharded laid) {
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
  const Priced prices = priced(laid.graph, laid.wanted, costs);
  laid.cost = std::accumulate(prices.calls.begin(), prices.calls.end(), 0.0) +
              std::accumulate(prices.moves.begin(), prices.moves.end(), 0.0);
  return laid;
}

// Every choice of every node.
std::vector<Sharded> all_ways(const Graph& graph, const Choices& choices, const CostTable& costs) {
  TreePrices prices(costs);
  std::vector<Sharded> made;
  ById<NodeId, int> chosen(graph.nodes.size(), 0);
  while (true) {
    check_interrupt();
    made.push_back(laid_by(graph, choices, chosen));
    made.back().cost = price(graph, choices, chosen, prices);
    if (!std::isfinite(made.back().cost)) made.pop_back();
    int n = 0;
    for (; chosen.has(NodeId(n)) && ++chosen[NodeId(n)] == static_cast<int>(choices[NodeId(n)].size()); ++n)
      chosen[NodeId(n)] = 0;
    if (!chosen.has(NodeId(n))) return made;
  }
}

}  // namespace

Frontier frontier(const Graph& graph, const OpTable& ops, const CostTable& costs, const Sharded& fastest,
                  const FrontierLimits& limits) {
  std::vector<Sharded> made = {fastest};
  auto add = [&](Sharded laid) {
    if (std::none_of(made.begin(), made.end(), [&](const Sharded& other) { return laid_alike(laid, other); }))
      made.push_back(std::move(laid));
  };
  Choices choices;
  std::size_t ways = 1;
  const SumRules rules(graph);
  for (NodeId n : graph.nodes.ids()) {
    if (ways > limits.all_ways) break;
    choices.push_back(choices_of(graph, n, costs, rules));
    ways *= choices[n].size();
  }
  if (ways <= limits.all_ways) {
    for (Sharded& laid : all_ways(graph, choices, costs))
      if (!laid_alike(laid, fastest)) made.push_back(std::move(laid));
  } else {
    PricedSearch search(graph, costs);
    const Moment first = fullest_moment(fastest, ops, costs);
    const auto made_bytes = Hull(search, HeldBytes(graph, {first}, Account::made)).run(fastest, limits.searches / 2);
    const Moment last = fullest_moment(made_bytes.back().laid, ops, costs);
    const auto read_bytes = Hull(search, HeldBytes(graph, {first, last}, Account::read))
                                .run(fastest, limits.searches - limits.searches / 2);
    for (const auto* corners : {&made_bytes, &read_bytes})
      for (const Corner& corner : *corners) add(corner.laid);
    for (std::size_t i = 0, count = made.size(); i < count; ++i)
      if (auto laid = stored_as_read(graph, costs, made[i])) add(std::move(*laid));
  }
  std::stable_sort(made.begin() + 1, made.end(), [](const Sharded& a, const Sharded& b) { return a.cost < b.cost; });
  return {std::move(made), ways <= limits.all_ways};
}

}  // namespace karez::passes
