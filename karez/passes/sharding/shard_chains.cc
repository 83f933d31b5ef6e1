// Chains over sets of layouts, and over sets of one axis's entries.
#include "karez/passes/sharding/shard_chains.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <optional>

#include "karez/base/interrupt.h"

namespace karez::passes {
namespace {

constexpr std::size_t max_step_cells =
    1 << 17;  // of one link: sets before it times classes, and sets after it times the producer's classes
constexpr std::size_t max_layouts = 256;        // that the consumers of one chain may require
constexpr std::size_t max_chain_capacity = 12;  // layouts
constexpr int min_chain_capacity = 2;           // below it, chains over single axes give a better bound

// A set of layouts that a chain's consumers require, besides those required in any case.
struct LayoutSet {
  std::array<std::uint64_t, max_layouts / 64> bits = {};
  int count = 0;
  bool has(int layout) const { return (bits[layout / 64] >> layout % 64 & 1U) != 0; }
  bool meets(const LayoutSet& other) const {
    for (std::size_t w = 0; w < bits.size(); ++w)
      if ((bits[w] & other.bits[w]) != 0) return true;
    return false;
  }
  void add(int layout) { bits[layout / 64] |= std::uint64_t{1} << layout % 64, ++count; }
  void drop(const LayoutSet& others) {
    count = 0;
    for (std::size_t w = 0; w < bits.size(); ++w) {
      bits[w] &= ~others.bits[w];
      count += std::popcount(bits[w]);
    }
  }
  auto operator<=>(const LayoutSet&) const = default;
};

// The layouts that some but not all consumers require, and which of them become which others at no cost.
struct RequestedLayouts {
  std::vector<int> layouts;
  std::vector<std::vector<std::vector<int>>> wanted;  // by consumer and class: indices into `layouts`
  std::vector<LayoutSet> gives, given_by;             // by layout; of two that give each other the first gives
};

RequestedLayouts requested_layouts(const LayoutRequest& asking) {
  RequestedLayouts requested;
  TransitionTable& table = asking.table;
  for (const TableMember* consumer : asking.consumers) {
    auto& classes = requested.wanted.emplace_back();
    for (const TableMember::Class& one : consumer->classes) {
      auto& places = classes.emplace_back();
      for (int target : one.targets) {
        if (table.with(asking.base, target) == asking.base) continue;
        const auto at = std::find(requested.layouts.begin(), requested.layouts.end(), target);
        places.push_back(static_cast<int>(at - requested.layouts.begin()));
        if (at == requested.layouts.end()) requested.layouts.push_back(target);
      }
    }
  }
  const std::size_t count = requested.layouts.size();
  requested.gives.resize(count);
  requested.given_by.resize(count);
  if (count > max_layouts) return requested;
  auto free = [&](std::size_t a, std::size_t b) {
    return table.seconds(requested.layouts[a], table.with(0, requested.layouts[b])) == 0;
  };
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b < count; ++b)
      if (a != b && free(a, b) && (a < b || !free(b, a)))
        requested.gives[a].add(static_cast<int>(b)), requested.given_by[b].add(static_cast<int>(a));
  return requested;
}

// The sets that are possible after a link, and the transitions to them.
struct ChainStep {
  std::vector<LayoutSet> after;
  std::vector<int> next_set;  // by position before and class: position after, -1 if it is forbidden
};
struct LayoutSetChain {
  std::vector<ChainStep> links;
  int capacity = 0;
  bool truncated = false;
};

// The links of a chain that tracks up to `most` layouts; nullopt if it is too large, or if it forbids everything. A set
// leaves out layouts that another of its layouts gives at no cost.
std::optional<LayoutSetChain> set_chain(const RequestedLayouts& requested, int most, std::size_t producers,
                                        ChainOverflow overflow) {
  LayoutSetChain chain{{}, most, false};
  std::vector<LayoutSet> before = {{}};
  for (const auto& classes : requested.wanted) {
    ChainStep link;
    std::map<LayoutSet, int> seen;
    for (const LayoutSet& few : before) {
      for (const std::vector<int>& layouts : classes) {
        LayoutSet next = few;
        bool forbidden = false;
        for (int layout : layouts) {
          const auto l = static_cast<std::size_t>(layout);
          if (next.has(layout) || next.meets(requested.given_by[l])) continue;
          next.drop(requested.gives[l]);
          if (next.count < most) {
            next.add(layout);
          } else {
            chain.truncated = true;
            forbidden = overflow == ChainOverflow::forbidden;
          }
        }
        link.next_set.push_back(-1);
        if (forbidden) continue;
        auto [at, fresh] = seen.try_emplace(next, static_cast<int>(seen.size()));
        if (fresh) link.after.push_back(next);
        link.next_set.back() = at->second;
      }
      if (link.next_set.size() > max_step_cells || link.after.size() * producers > max_step_cells) return std::nullopt;
    }
    if (link.after.empty()) return std::nullopt;  // everything is forbidden
    before = link.after;
    chain.links.push_back(std::move(link));
  }
  return chain;
}

std::optional<LayoutSetChain> longest_chain(const RequestedLayouts& requested, std::size_t producers,
                                            ChainOverflow overflow) {
  if (requested.layouts.size() > max_layouts) return std::nullopt;
  for (int most = static_cast<int>(std::min(requested.wanted.size(), max_chain_capacity)); most > 0; --most)
    if (auto chain = set_chain(requested, most, producers, overflow)) return chain;
  return std::nullopt;
}

LayoutChain chain_over_sets(const LayoutRequest& asking, const RequestedLayouts& requested,
                            std::optional<LayoutSetChain> sets) {
  LayoutChain made;
  std::vector<int> last = {asking.base};
  if (sets) {
    for (std::size_t k = 0; k < sets->links.size(); ++k) {
      auto cells = std::make_shared<solve::CostCells>();
      if (k > 0) cells->classes.emplace_back();
      cells->classes.push_back(asking.consumers[k]->class_of);
      cells->classes.emplace_back();
      cells->implied_class = std::move(sets->links[k].next_set);
      made.links.push_back({k, std::move(cells), static_cast<int>(sets->links[k].after.size())});
    }
    last.clear();
    for (const LayoutSet& few : sets->links.back().after) {
      last.push_back(asking.base);
      for (std::size_t l = 0; l < requested.layouts.size(); ++l)
        if (few.has(static_cast<int>(l))) last.back() = asking.table.with(last.back(), requested.layouts[l]);
    }
  }
  auto price = std::make_shared<solve::CostCells>();
  price->classes.push_back(asking.producer.class_of);
  if (sets) price->classes.emplace_back();
  for (const TableMember::Class& one : asking.producer.classes) {
    check_interrupt();
    for (int set : last) price->cost.push_back(asking.times * asking.table.seconds(one.from, set));
  }
  made.price = std::move(price);
  return made;
}

// The index of `one` in the list, to which it is appended if it is missing.
template <class T> int place_of(std::vector<T>& list, const T& one) {
  const auto at = std::find(list.begin(), list.end(), one);
  const auto place = static_cast<int>(at - list.begin());
  if (at == list.end()) list.push_back(one);
  return place;
}

std::vector<int> merged(const std::vector<int>& of_class, const std::vector<int>& class_of) {
  std::vector<int> out;
  out.reserve(class_of.size());
  for (int c : class_of) out.push_back(of_class[static_cast<std::size_t>(c)]);
  return out;
}

LayoutChain chain_over_axis(const LayoutRequest& asking, sbp::AxisLowerBounds& floors, int axis) {
  auto entry = [&](int layout) { return asking.table.layout(layout)[static_cast<std::size_t>(axis)]; };
  auto entries = [&](const std::vector<int>& layouts) {
    unsigned set = sbp::AxisLowerBounds::none;
    for (int layout : layouts) set = floors.with(set, entry(layout));
    return set;
  };
  LayoutChain made;
  std::vector<unsigned> sets = {entries(asking.table.layouts_in(asking.base))};
  for (std::size_t k = 0; k < asking.consumers.size(); ++k) {
    std::vector<unsigned> asks, after;
    std::vector<int> of_class;
    for (const TableMember::Class& one : asking.consumers[k]->classes)
      of_class.push_back(place_of(asks, entries(one.targets)));
    if (asks.size() == 1) {
      for (unsigned& set : sets) set |= asks[0];
      continue;
    }
    auto cells = std::make_shared<solve::CostCells>();
    for (unsigned set : sets)
      for (unsigned ask : asks) cells->implied_class.push_back(place_of(after, set | ask));
    if (!made.links.empty()) cells->classes.emplace_back();
    cells->classes.push_back(merged(of_class, asking.consumers[k]->class_of));
    cells->classes.emplace_back();
    made.links.push_back({k, std::move(cells), static_cast<int>(after.size())});
    sets = std::move(after);
  }
  auto price = std::make_shared<solve::CostCells>();
  std::vector<Sbp> starts;
  std::vector<int> of_class;
  for (const TableMember::Class& one : asking.producer.classes) of_class.push_back(place_of(starts, entry(one.from)));
  price->classes.push_back(merged(of_class, asking.producer.class_of));
  if (!made.links.empty()) price->classes.emplace_back();
  for (Sbp start : starts)
    for (unsigned set : sets) price->cost.push_back(asking.times * floors.seconds(axis, start, set));
  made.price = std::move(price);
  return made;
}

}  // namespace

LayoutChains chains_of(const LayoutRequest& asking, TransitionCostCache& prices, ChainOverflow overflow) {
  const RequestedLayouts requested = requested_layouts(asking);
  std::optional<LayoutSetChain> sets = longest_chain(requested, asking.producer.classes.size(), overflow);
  const bool exact = sets && !sets->truncated;
  if (exact || overflow == ChainOverflow::forbidden || (sets && sets->capacity >= min_chain_capacity))
    return {{chain_over_sets(asking, requested, std::move(sets))}, exact};
  LayoutChains made{{}, false};
  sbp::AxisLowerBounds& floors = prices.floors(asking.table.type(), asking.table.mesh());
  for (int axis = 0; axis < asking.table.mesh().rank(); ++axis)
    made.chains.push_back(chain_over_axis(asking, floors, axis));
  return made;
}

}  // namespace karez::passes
