// Builds chains over sets of layouts, and over sets of the entries of one axis.
#include "karez/passes/sharding/shard_chains.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <optional>

#include "karez/base/interrupt.h"

namespace karez::passes {
namespace {

// The limit for one link of a chain. It applies to (sets before the link) x (classes of its consumer), and to (sets
// after the link) x (classes of the producer).
constexpr std::size_t max_step_cells = 1 << 17;
constexpr std::size_t max_layouts = 256;        // layouts that the consumers of one chain may require
constexpr std::size_t max_chain_capacity = 12;  // layouts that a chain may track
constexpr int min_chain_capacity = 2;           // below this capacity, chains over single axes give a better bound

// A set of layouts that a chain's consumers require, without the layouts that are required in any case.
struct LayoutSet {
  std::array<std::uint64_t, max_layouts / 64> bits = {};
  int count = 0;
  bool has(int layout) const { return (bits[layout / 64] >> layout % 64 & 1U) != 0; }
  bool intersects(const LayoutSet& other) const {
    for (std::size_t w = 0; w < bits.size(); ++w)
      if ((bits[w] & other.bits[w]) != 0) return true;
    return false;
  }
  void add(int layout) { bits[layout / 64] |= std::uint64_t{1} << layout % 64, ++count; }
  void remove(const LayoutSet& removed) {
    count = 0;
    for (std::size_t w = 0; w < bits.size(); ++w) {
      bits[w] &= ~removed.bits[w];
      count += std::popcount(bits[w]);
    }
  }
  auto operator<=>(const LayoutSet&) const = default;
};

// The layouts that some choices of consumers require, and which of them can be changed into which others at no cost.
struct RequestedLayouts {
  std::vector<int> layouts;
  std::vector<std::vector<std::vector<int>>> required;  // by consumer and class: indices into `layouts`
  // By layout: the layouts into which it can be changed at no cost, and the layouts that can be changed into it at no
  // cost. If two layouts can be changed into each other, only the first one counts as a source.
  std::vector<LayoutSet> free_targets, free_sources;
};

RequestedLayouts requested_layouts(const LayoutRequest& request) {
  RequestedLayouts requested;
  TransitionTable& table = request.price.table();
  for (const TableMember* consumer : request.consumers) {
    auto& classes = requested.required.emplace_back();
    for (const TableMember::Class& item : consumer->classes) {
      auto& indices = classes.emplace_back();
      for (int target : item.targets) {
        if (table.with(request.base, target) == request.base) continue;
        const auto at = std::find(requested.layouts.begin(), requested.layouts.end(), target);
        indices.push_back(static_cast<int>(at - requested.layouts.begin()));
        if (at == requested.layouts.end()) requested.layouts.push_back(target);
      }
    }
  }
  const std::size_t count = requested.layouts.size();
  requested.free_targets.resize(count);
  requested.free_sources.resize(count);
  if (count > max_layouts) return requested;
  auto is_free = [&](std::size_t a, std::size_t b) {
    return request.price.implies(requested.layouts[a], requested.layouts[b]);
  };
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b < count; ++b)
      if (a != b && is_free(a, b) && (a < b || !is_free(b, a)))
        requested.free_targets[a].add(static_cast<int>(b)), requested.free_sources[b].add(static_cast<int>(a));
  return requested;
}

// The sets that are possible after a link of a chain, and the transitions to them.
struct ChainStep {
  std::vector<LayoutSet> sets_after;
  std::vector<int> next_set;  // by set before the link and class: the set after the link, -1 if it is forbidden
};
struct LayoutSetChain {
  std::vector<ChainStep> links;
  int capacity = 0;
  bool truncated = false;
};

// Returns the links of a chain that tracks up to `max_layouts_tracked` layouts; nullopt if the chain is too large, or
// if it forbids everything. A set leaves out each layout into which another layout of the set can be changed at no
// cost.
std::optional<LayoutSetChain> set_chain(const RequestedLayouts& requested, int max_layouts_tracked,
                                        std::size_t producers, ChainOverflow overflow) {
  LayoutSetChain chain{{}, max_layouts_tracked, false};
  std::vector<LayoutSet> sets_before = {{}};
  for (const auto& classes : requested.required) {
    ChainStep link;
    std::map<LayoutSet, int> set_numbers;
    for (const LayoutSet& tracked_set : sets_before) {
      for (const std::vector<int>& layouts : classes) {
        LayoutSet next = tracked_set;
        bool forbidden = false;
        for (int layout : layouts) {
          const auto l = static_cast<std::size_t>(layout);
          if (next.has(layout) || next.intersects(requested.free_sources[l])) continue;
          next.remove(requested.free_targets[l]);
          if (next.count < max_layouts_tracked) {
            next.add(layout);
          } else {
            chain.truncated = true;
            forbidden = overflow == ChainOverflow::forbidden;
          }
        }
        link.next_set.push_back(-1);
        if (forbidden) continue;
        auto [at, inserted] = set_numbers.try_emplace(next, static_cast<int>(set_numbers.size()));
        if (inserted) link.sets_after.push_back(next);
        link.next_set.back() = at->second;
      }
      if (link.next_set.size() > max_step_cells || link.sets_after.size() * producers > max_step_cells)
        return std::nullopt;
    }
    if (link.sets_after.empty()) return std::nullopt;  // everything is forbidden
    sets_before = link.sets_after;
    chain.links.push_back(std::move(link));
  }
  return chain;
}

std::optional<LayoutSetChain> longest_chain(const RequestedLayouts& requested, std::size_t producers,
                                            ChainOverflow overflow) {
  if (requested.layouts.size() > max_layouts) return std::nullopt;
  for (int max_layouts_tracked = static_cast<int>(std::min(requested.required.size(), max_chain_capacity));
       max_layouts_tracked > 0; --max_layouts_tracked)
    if (auto chain = set_chain(requested, max_layouts_tracked, producers, overflow)) return chain;
  return std::nullopt;
}

LayoutChain chain_over_sets(const LayoutRequest& request, const RequestedLayouts& requested,
                            std::optional<LayoutSetChain> sets) {
  LayoutChain chain;
  std::vector<int> last_sets = {request.base};
  if (sets) {
    for (std::size_t k = 0; k < sets->links.size(); ++k) {
      auto cells = std::make_shared<solve::CostCells>();
      if (k > 0) cells->classes.emplace_back();
      cells->classes.push_back(request.consumers[k]->class_of);
      cells->classes.emplace_back();
      cells->implied_class = std::move(sets->links[k].next_set);
      chain.links.push_back({k, std::move(cells), static_cast<int>(sets->links[k].sets_after.size())});
    }
    last_sets.clear();
    for (const LayoutSet& tracked_set : sets->links.back().sets_after) {
      last_sets.push_back(request.base);
      for (std::size_t l = 0; l < requested.layouts.size(); ++l)
        if (tracked_set.has(static_cast<int>(l)))
          last_sets.back() = request.price.table().with(last_sets.back(), requested.layouts[l]);
    }
  }
  auto price = std::make_shared<solve::CostCells>();
  price->classes.push_back(request.producer.class_of);
  if (sets) price->classes.emplace_back();
  for (const TableMember::Class& item : request.producer.classes) {
    check_interrupt();
    for (int set : last_sets) price->cost.push_back(request.price.seconds(item.from, set));
  }
  chain.price = std::move(price);
  return chain;
}

// Returns the index of `item` in the list; appends the item if it is missing.
template <class T> int index_of(std::vector<T>& list, const T& item) {
  const auto at = std::find(list.begin(), list.end(), item);
  const auto index = static_cast<int>(at - list.begin());
  if (at == list.end()) list.push_back(item);
  return index;
}

std::vector<int> merged(const std::vector<int>& of_class, const std::vector<int>& class_of) {
  std::vector<int> out;
  out.reserve(class_of.size());
  for (int c : class_of) out.push_back(of_class[static_cast<std::size_t>(c)]);
  return out;
}

// The price of accesses to a value that fuses is left out, which keeps the lower bound valid.
LayoutChain chain_over_axis(const LayoutRequest& request, sbp::AxisLowerBounds& bounds, int axis) {
  auto entry = [&](int layout) { return request.price.table().layout(layout)[static_cast<std::size_t>(axis)]; };
  auto entries = [&](const std::vector<int>& layouts) {
    unsigned set = sbp::AxisLowerBounds::none;
    for (int layout : layouts) set = bounds.with(set, entry(layout));
    return set;
  };
  LayoutChain chain;
  std::vector<unsigned> sets = {entries(request.price.table().layouts_in(request.base))};
  for (std::size_t k = 0; k < request.consumers.size(); ++k) {
    std::vector<unsigned> requested_sets, sets_after;
    std::vector<int> of_class;
    for (const TableMember::Class& item : request.consumers[k]->classes)
      of_class.push_back(index_of(requested_sets, entries(item.targets)));
    if (requested_sets.size() == 1) {
      for (unsigned& set : sets) set |= requested_sets[0];
      continue;
    }
    auto cells = std::make_shared<solve::CostCells>();
    for (unsigned set : sets)
      for (unsigned requested_set : requested_sets)
        cells->implied_class.push_back(index_of(sets_after, set | requested_set));
    if (!chain.links.empty()) cells->classes.emplace_back();
    cells->classes.push_back(merged(of_class, request.consumers[k]->class_of));
    cells->classes.emplace_back();
    chain.links.push_back({k, std::move(cells), static_cast<int>(sets_after.size())});
    sets = std::move(sets_after);
  }
  auto price = std::make_shared<solve::CostCells>();
  std::vector<Sbp> starts;
  std::vector<int> of_class;
  for (const TableMember::Class& item : request.producer.classes)
    of_class.push_back(index_of(starts, entry(item.from)));
  price->classes.push_back(merged(of_class, request.producer.class_of));
  if (!chain.links.empty()) price->classes.emplace_back();
  for (Sbp start : starts)
    for (unsigned set : sets) price->cost.push_back(request.price.fills() * bounds.seconds(axis, start, set));
  chain.price = std::move(price);
  return chain;
}

}  // namespace

LayoutChains chains_of(const LayoutRequest& request, TransitionCostCache& prices, ChainOverflow overflow) {
  const RequestedLayouts requested = requested_layouts(request);
  std::optional<LayoutSetChain> sets = longest_chain(requested, request.producer.classes.size(), overflow);
  const bool exact = sets && !sets->truncated;
  if (exact || overflow == ChainOverflow::forbidden || (sets && sets->capacity >= min_chain_capacity))
    return {{chain_over_sets(request, requested, std::move(sets))}, exact};
  LayoutChains chains{{}, false};
  sbp::AxisLowerBounds& bounds = prices.floors(request.price.table().type(), request.price.table().mesh());
  for (int axis = 0; axis < request.price.table().mesh().rank(); ++axis)
    chains.chains.push_back(chain_over_axis(request, bounds, axis));
  return chains;
}

}  // namespace karez::passes
