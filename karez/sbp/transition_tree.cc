// TransitionTable: numbers layouts and sets of targets, and finds trees for them.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "karez/base/error.h"
#include "karez/sbp/axis_transition.h"
#include "karez/sbp/tree_search.h"

namespace karez::sbp {

// The numbered layouts and sets, and the cached results.
struct TransitionTable::State {
  TensorType type;
  Mesh mesh;
  CostTable costs;
  std::vector<Layout> layouts;  // by number
  std::map<Layout, int> number_of;
  std::vector<std::vector<int>> sets = {{}};  // by number: the layouts in the set, in ascending order
  std::map<std::vector<int>, int> set_of = {{{}, 0}};
  std::unordered_map<std::int64_t, int> extended;                      // by set and layout: the set with this layout
  std::vector<std::vector<double>> seconds;                            // by set and start; negative if unknown
  std::map<unsigned, TreeSearch> searches;                             // by kinds of Partial
  std::map<unsigned, std::unordered_map<std::int64_t, double>> steps;  // seconds by kinds of Partial, start and end
  std::int64_t key(int set, int layout) const { return static_cast<std::int64_t>(set) << 32 | layout; }

  struct FoundTree {
    const TreeSearch* search = nullptr;
    unsigned kinds = 0;
    std::vector<std::pair<int, int>> pairs;  // the steps, as pairs of states
  };
  int with(int set, int layout);
  FoundTree find_tree(int from, int set);
  TransitionStep step(const LayoutSpace& space, int begin, int end) const;
};

TransitionTable::TransitionTable(const TensorType& type, const Mesh& mesh, const CostTable& costs)
    : state_(std::make_unique<State>()) {
  state_->type = type;
  state_->mesh = mesh;
  state_->costs = costs;
}
TransitionTable::~TransitionTable() = default;

int TransitionTable::number(const Layout& layout) {
  auto [entry, inserted] = state_->number_of.try_emplace(layout, static_cast<int>(state_->layouts.size()));
  if (inserted) {
    std::string reason;
    if (!is_valid(state_->type, state_->mesh, layout, &reason)) {
      state_->number_of.erase(entry);
      fail(ErrorKind::layout, "transition: ", reason);
    }
    state_->layouts.push_back(layout);
  }
  return entry->second;
}

const Layout& TransitionTable::layout(int number) const { return state_->layouts[static_cast<std::size_t>(number)]; }

const std::vector<int>& TransitionTable::layouts_in(int set) const {
  return state_->sets[static_cast<std::size_t>(set)];
}
const TensorType& TransitionTable::type() const { return state_->type; }
const Mesh& TransitionTable::mesh() const { return state_->mesh; }

int TransitionTable::State::with(int set, int layout) {
  auto [entry, inserted] = extended.try_emplace(key(set, layout), set);
  if (!inserted) return entry->second;
  std::vector<int> members = sets[set];
  auto insert_at = std::find_if(members.begin(), members.end(), [&](int m) { return !(layouts[m] < layouts[layout]); });
  if (insert_at != members.end() && *insert_at == layout) return set;
  members.insert(insert_at, layout);
  auto [existing, is_new] = set_of.try_emplace(members, static_cast<int>(sets.size()));
  if (is_new) sets.push_back(std::move(members));
  return entry->second = existing->second;
}

int TransitionTable::with(int set, int layout) { return state_->with(set, layout); }

TransitionTable::State::FoundTree TransitionTable::State::find_tree(int from, int set) {
  // Remove the start from a copy of the set. The result does not depend on the order of consumers, since members are in
  // the order of layouts.
  std::vector<int> members = sets[set];
  if (std::erase(members, from) != 0) {
    set = 0;
    for (int member : members) set = with(set, member);
  }
  if (set == 0) return {};
  require(ErrorKind::layout, members.size() <= 16, "transition: ", members.size(),
          " different targets; at most 16 are supported");
  unsigned kinds = kinds_of(layouts[from]);
  for (int member : members) kinds |= kinds_of(layouts[member]);
  auto search = searches.try_emplace(kinds, type, mesh, kinds, costs).first;
  const LayoutSpace& space = search->second.space();
  if (!search->second.has_result(set)) {
    std::vector<int> subsets = {0};  // indexed by a bit mask of members
    for (int member : members)
      for (std::size_t i = 0, count = subsets.size(); i < count; ++i) subsets.push_back(with(subsets[i], member));
    for (std::size_t bits = 1; bits < subsets.size(); ++bits) {
      if (search->second.has_result(subsets[bits])) continue;
      std::vector<int> subsets_below = {0};  // the subsets of `bits`, indexed by a bit mask of the members in `bits`
      std::size_t last = 0;
      for (std::size_t m = 0; m < members.size(); ++m) {
        if ((bits >> m & 1U) == 0) continue;
        last = m;
        for (std::size_t i = 0, count = subsets_below.size(); i < count; ++i)
          subsets_below.push_back(with(subsets_below[i], members[m]));
      }
      search->second.run(subsets[bits], subsets_below, space.number(layouts[members[last]]));
    }
  }
  std::vector<std::pair<int, int>> pairs;
  search->second.collect(set, space.number(layouts[from]), pairs);
  return {&search->second, search->first, std::move(pairs)};
}

TransitionStep TransitionTable::State::step(const LayoutSpace& space, int begin, int end) const {
  TransitionStep step{0, Move::slice, Layout(mesh.axes.size()), Layout(mesh.axes.size())};
  space.unpack(begin, step.from);
  space.unpack(end, step.to);
  while (step.from[step.axis] == step.to[step.axis]) ++step.axis;
  step.move = *move_between(step.from[step.axis], step.to[step.axis]);
  return step;
}

TransitionTree TransitionTable::tree(int from, int set) {
  const State::FoundTree found = state_->find_tree(from, set);
  TransitionTree out;
  for (auto [begin, end] : found.pairs) {
    out.steps.push_back(state_->step(found.search->space(), begin, end));
    out.seconds += step_seconds(state_->type, state_->mesh, out.steps.back(), state_->costs);
  }
  return out;
}

double TransitionTable::seconds(int from, int set) {
  const auto s = static_cast<std::size_t>(set), f = static_cast<std::size_t>(from);
  auto& cache = state_->seconds;
  if (cache.size() <= s) cache.resize(state_->sets.size());
  if (f < cache[s].size() && cache[s][f] >= 0) return cache[s][f];
  const State::FoundTree found = state_->find_tree(from, set);
  double sum = 0;
  for (auto [begin, end] : found.pairs) {
    auto [step, inserted] = state_->steps[found.kinds].try_emplace(state_->key(begin, end), 0);
    if (inserted)
      step->second =
          step_seconds(state_->type, state_->mesh, state_->step(found.search->space(), begin, end), state_->costs);
    sum += step->second;
  }
  if (cache[s].size() <= f) cache[s].resize(state_->layouts.size(), -1);
  return cache[s][f] = sum;
}

TransitionTree transition_tree(const TensorType& type, const Mesh& mesh, const Layout& from,
                               const std::vector<Layout>& targets, const CostTable& costs) {
  TransitionTable table(type, mesh, costs);
  int set = 0, start = table.number(from);
  for (const Layout& target : targets) set = table.with(set, table.number(target));
  return table.tree(start, set);
}

}  // namespace karez::sbp
