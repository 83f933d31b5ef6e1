// TransitionTable: numbers for layouts and sets of targets, and the trees that the search finds for them.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "sbp/one_axis.h"
#include "sbp/tree_search.h"

namespace karez::sbp {

// What is remembered.
struct TransitionTable::State {
  TensorType type;
  Mesh mesh;
  CostTable costs;
  std::vector<Layout> layouts;  // by number
  std::map<Layout, int> number_of;
  std::vector<std::vector<int>> sets = {{}};  // by number: layouts, in the order of layouts
  std::map<std::vector<int>, int> set_of = {{{}, 0}};
  std::unordered_map<std::int64_t, int> grown;       // by set and layout: the set with it
  std::unordered_map<std::int64_t, double> seconds;  // by set and start
  std::map<unsigned, TreeSearch> searches;           // by kinds of Partial
  std::int64_t key(int set, int layout) const { return static_cast<std::int64_t>(set) << 32 | layout; }
};

TransitionTable::TransitionTable(const TensorType& type, const Mesh& mesh, const CostTable& costs) : state_(std::make_unique<State>()) {
  state_->type = type;
  state_->mesh = mesh;
  state_->costs = costs;
}
TransitionTable::~TransitionTable() = default;

int TransitionTable::number(const Layout& layout) {
  auto [at, fresh] = state_->number_of.try_emplace(layout, static_cast<int>(state_->layouts.size()));
  if (fresh) {
    std::string why;
    if (!is_valid(state_->type, state_->mesh, layout, &why)) {
      state_->number_of.erase(at);
      fail(ErrorKind::layout, "transition: ", why);
    }
    state_->layouts.push_back(layout);
  }
  return at->second;
}

int TransitionTable::with(int set, int layout) {
  auto [at, fresh] = state_->grown.try_emplace(state_->key(set, layout), set);
  if (!fresh) return at->second;
  std::vector<int> members = state_->sets[set];
  auto place = std::find_if(members.begin(), members.end(), [&](int m) { return !(state_->layouts[m] < state_->layouts[layout]); });
  if (place != members.end() && *place == layout) return set;
  members.insert(place, layout);
  auto [known, added] = state_->set_of.try_emplace(members, static_cast<int>(state_->sets.size()));
  if (added) state_->sets.push_back(std::move(members));
  return at->second = known->second;
}

TransitionTree TransitionTable::tree(int from, int set) {
  // A copy, less the start itself; the result does not depend on the order of consumers, for members stand in the order of layouts.
  std::vector<int> members = state_->sets[set];
  if (std::erase(members, from) != 0) {
    set = 0;
    for (int member : members) set = with(set, member);
  }
  if (set == 0) return {};
  require(ErrorKind::layout, members.size() <= 16, "transition: ", members.size(), " different targets; trees are exact up to 16");
  unsigned kinds = kinds_of(state_->layouts[from]);
  for (int member : members) kinds |= kinds_of(state_->layouts[member]);
  auto search = state_->searches.try_emplace(kinds, state_->type, state_->mesh, kinds, state_->costs).first;
  const Space& space = search->second.space();
  if (!search->second.knows(set)) {
    std::vector<int> subsets = {0};  // by the bits of the members in it
    for (int member : members)
      for (std::size_t i = 0, count = subsets.size(); i < count; ++i) subsets.push_back(with(subsets[i], member));
    for (std::size_t bits = 1; bits < subsets.size(); ++bits) {
      if (search->second.knows(subsets[bits])) continue;
      std::vector<int> below = {0};  // the subsets of `bits`, in the numbering of its own members
      std::size_t last = 0;
      for (std::size_t m = 0; m < members.size(); ++m) {
        if ((bits >> m & 1U) == 0) continue;
        last = m;
        for (std::size_t i = 0, count = below.size(); i < count; ++i) below.push_back(with(below[i], members[m]));
      }
      search->second.run(subsets[bits], below, space.number(state_->layouts[members[last]]));
    }
  }
  std::vector<std::pair<int, int>> pairs;
  search->second.collect(set, space.number(state_->layouts[from]), pairs);
  TransitionTree out;
  std::size_t axes = state_->mesh.axes.size();
  for (auto [begin, end] : pairs) {
    TransitionStep step{0, Move::slice, Layout(axes), Layout(axes)};
    space.unpack(begin, step.from);
    space.unpack(end, step.to);
    while (step.from[step.axis] == step.to[step.axis]) ++step.axis;
    step.move = *move_between(step.from[step.axis], step.to[step.axis]);
    out.seconds += step_seconds(state_->type, state_->mesh, step, state_->costs);
    out.steps.push_back(std::move(step));
  }
  return out;
}

double TransitionTable::seconds(int from, int set) {
  auto at = state_->seconds.find(state_->key(set, from));
  if (at != state_->seconds.end()) return at->second;
  return state_->seconds[state_->key(set, from)] = tree(from, set).seconds;
}

TransitionTree transition_tree(const TensorType& type, const Mesh& mesh, const Layout& from, const std::vector<Layout>& targets,
                               const CostTable& costs) {
  TransitionTable table(type, mesh, costs);
  int set = 0, start = table.number(from);
  for (const Layout& target : targets) set = table.with(set, table.number(target));
  return table.tree(start, set);
}

}  // namespace karez::sbp
