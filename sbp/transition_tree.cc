// The cheapest tree of steps from one layout to several: a directed Steiner tree over all layouts, by Dreyfus and Wagner
// ("The Steiner problem in graphs", Networks 1, 1971). With one target this is Dijkstra's shortest path.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "sbp/one_axis.h"

namespace karez {
namespace {
// Costs are compared as integers, so that sums in another order still tie. One unit is 2^-44 of what a step could cost at most; each
// step adds a little, so that of equal costs the one of fewer steps wins, whatever the rounding of doubles did.
using Units = std::int64_t;
constexpr double finest = 17592186044416.0;  // 2^44
constexpr Units per_step = 16;
constexpr Units never = std::numeric_limits<Units>::max() / 4;

// All layouts of a tensor, numbered in their order: entry lists as digits, the first axis most significant.
struct Space {
  const TensorType& type;
  const Mesh& mesh;
  std::vector<Sbp> entries;
  std::vector<int> stride;  // by axis
  int states = 1;
  std::vector<const LinkCost*> link;
  double memory_bytes = 1;
  double scale = 0;  // units per second

  int number(const Layout& layout) const {
    int out = 0;
    for (int a = 0; a < mesh.rank(); ++a) {
      auto at = std::find(entries.begin(), entries.end(), layout[a]);
      out += stride[a] * static_cast<int>(at - entries.begin());
    }
    return out;
  }
  void unpack(int state, Layout& layout) const {
    for (int a = 0; a < mesh.rank(); ++a) layout[a] = entries[digit(state, a)];
  }
  int digit(int state, int axis) const { return state / stride[axis] % static_cast<int>(entries.size()); }
};

// Every split, even of a dimension of size 1 (P(min) -> S -> P(max) has half the messages of the way by Broadcast). Of Partial only the
// kinds that somebody has: to add zeros where nobody asked for a sum would turn -0 into 0.
Space space_of(const TensorType& type, const Mesh& mesh, const Layout& from, const std::vector<Layout>& targets, const CostTable& costs) {
  Space out{type, mesh, {}, {}, 1, {}, costs.memory_bytes, 0};
  for (int d = 0; d < type.rank(); ++d) out.entries.push_back(S(d));
  out.entries.push_back(B());
  auto use = [&](const Layout& layout) { out.entries.insert(out.entries.end(), layout.begin(), layout.end()); };
  use(from);
  for (const Layout& target : targets) use(target);
  std::sort(out.entries.begin(), out.entries.end());
  out.entries.erase(std::unique(out.entries.begin(), out.entries.end()), out.entries.end());
  out.stride.resize(mesh.axes.size());
  double bytes = static_cast<double>(type.bytes()), most = 0;
  for (int a = mesh.rank() - 1; a >= 0; --a) {
    out.stride[a] = out.states;
    require(out.states <= (1 << 20) / static_cast<int>(out.entries.size()), "transition: ", type, " on ", print(mesh), " has too many layouts");
    out.states *= static_cast<int>(out.entries.size());
  }
  for (const MeshAxis& axis : mesh.axes) {
    out.link.push_back(&costs.of_axis(axis.name));
    most = std::max(most, 2 * axis.size * (out.link.back()->alpha + bytes * out.link.back()->beta + bytes / costs.memory_bytes));
  }
  out.scale = most > 0 ? finest / most : 0;
  return out;
}

// The steps into one state, by axis and by the digit they come from; worked out when first asked for.
class StepsInto {
 public:
  explicit StepsInto(const Space& space)
      : space_(space),
        width_(static_cast<int>(space.entries.size()) * space.mesh.rank()),
        known_(space.states, false),
        units_(static_cast<std::size_t>(space.states) * width_),
        layout_(space.mesh.rank()) {}

  // Units of each predecessor of `state`: [axis * entries + digit], `never` where there is no step.
  const Units* of(int state) {
    Units* row = &units_[static_cast<std::size_t>(state) * width_];
    if (!known_[state]) fill(state, row);
    return row;
  }

 private:
  void fill(int state, Units* row) {
    known_[state] = true;
    space_.unpack(state, layout_);
    int entries = static_cast<int>(space_.entries.size());
    for (int a = 0; a < space_.mesh.rank(); ++a) {
      shape_ = space_.type.shape;
      const Sbp* partial = nullptr;  // the kind that the other axes have
      for (int b = 0; b < space_.mesh.rank(); ++b) {
        if (b == a) continue;
        if (layout_[b].is_split()) shape_[layout_[b].dim] = ceil_div(shape_[layout_[b].dim], space_.mesh.axes[b].size);
        if (layout_[b].is_partial()) partial = &layout_[b];
      }
      Sbp to = layout_[a];
      for (int e = 0; e < entries; ++e) {
        Sbp from = space_.entries[e];
        auto move = move_between(from, to);
        bool one_kind = !partial || !from.is_partial() || from == *partial;
        row[a * entries + e] = move && one_kind && boxes_nest(space_.mesh, layout_, a, from, to) ? price(*move, from, to, a) : never;
      }
    }
  }

  Units price(Move move, Sbp from, Sbp to, int axis) const {
    double seconds =
        move_seconds(move, from, to, space_.mesh.axes[axis].size, shape_, size_of(space_.type.dtype), *space_.link[axis], space_.memory_bytes);
    return static_cast<Units>(std::llround(seconds * space_.scale)) + per_step;
  }

  const Space& space_;
  int width_;
  std::vector<char> known_;
  std::vector<Units> units_;
  Layout layout_;
  Shape shape_;
};

// What stands at one state for one set of targets: the cheapest tree from here that reaches them, and its first branch.
struct Best {
  Units units = never;
  int next = -1;  // the state that the first step leads to, or
  int part = 0;   // a subset of the targets: two trees start here, for it and for the rest
};

class Search {
 public:
  Search(const Space& space, int from) : space_(space), from_(from), into_(space) {}

  // best_[set] for one set of targets, all smaller sets being done. What is left when `from` is reached costs more than serving the
  // set from there, so no cheapest tree branches in it.
  void grow(int set) {
    std::vector<Best>& best = best_[set];
    heap_.clear();
    for (int s = 0; s < space_.states; ++s)
      if (best[s].units < never) heap_.emplace_back(-best[s].units, -s);
    std::make_heap(heap_.begin(), heap_.end());
    int entries = static_cast<int>(space_.entries.size());
    while (!heap_.empty()) {
      auto [negated, at] = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.pop_back();
      int to = -at;
      if (-negated != best[to].units) continue;  // a cheaper way was found since
      if (to == from_) return;
      const Units* steps = into_.of(to);
      for (int a = 0; a < space_.mesh.rank(); ++a) {
        int rest = to - space_.digit(to, a) * space_.stride[a];
        for (int e = 0; e < entries; ++e) {
          Units step = steps[a * entries + e];
          if (step == never) continue;
          Best& before = best[rest + e * space_.stride[a]];
          Units units = best[to].units + step;
          if (units > before.units || (units == before.units && (before.part != 0 || before.next < to))) continue;
          bool cheaper = units < before.units;
          before = {units, to, 0};
          if (!cheaper) continue;
          heap_.emplace_back(-units, -(rest + e * space_.stride[a]));
          std::push_heap(heap_.begin(), heap_.end());
        }
      }
    }
  }

  void run(const std::vector<int>& targets) {
    int full = (1 << targets.size()) - 1;
    best_.assign(static_cast<std::size_t>(full) + 1, {});
    for (int set = 1; set <= full; ++set) {
      best_[set].resize(space_.states);
      if ((set & (set - 1)) == 0) {
        best_[set][targets[static_cast<std::size_t>(__builtin_ctz(static_cast<unsigned>(set)))]].units = 0;
      } else {
        merge(set);
      }
      grow(set);
    }
  }

  // Steps in pre-order: each starts where an earlier one ended, or at the root.
  void collect(int set, int state, std::vector<std::pair<int, int>>& steps) const {
    while (true) {
      const Best& here = best_[set][state];
      require(here.units < never, "transition: a target cannot be reached");  // cannot be: everything meets in all Broadcast
      if (here.part != 0) {
        collect(here.part, state, steps);
        set ^= here.part;
      } else if (here.next >= 0) {
        steps.emplace_back(state, here.next);
        state = here.next;
      } else {
        return;
      }
    }
  }

 private:
  void merge(int set) {
    for (int part = (set - 1) & set; part > (set ^ part); part = (part - 1) & set) {  // each split of the set once
      const std::vector<Best>&one = best_[part], &other = best_[set ^ part];
      for (int s = 0; s < space_.states; ++s) {
        if (one[s].units >= never || other[s].units >= never) continue;
        Units units = one[s].units + other[s].units;
        if (units < best_[set][s].units) best_[set][s] = {units, -1, part};
      }
    }
  }

  const Space& space_;
  int from_;
  StepsInto into_;
  std::vector<std::vector<Best>> best_;      // by set of targets, by state
  std::vector<std::pair<Units, int>> heap_;  // negated: the standard heap has its largest first
};
}  // namespace

TransitionTree transition_tree(const TensorType& type, const Mesh& mesh, const Layout& from, const std::vector<Layout>& targets,
                               const CostTable& costs) {
  std::string why;
  require(is_valid(type, mesh, from, &why), "transition: ", why);
  std::vector<Layout> wanted;
  for (const Layout& target : targets) {
    require(is_valid(type, mesh, target, &why), "transition: ", why);
    if (target != from && std::find(wanted.begin(), wanted.end(), target) == wanted.end()) wanted.push_back(target);
  }
  if (wanted.empty()) return {};
  require(wanted.size() <= 16, "transition: ", wanted.size(), " different targets; trees are exact up to 16");
  std::sort(wanted.begin(), wanted.end());  // the result does not depend on the order of consumers
  Space space = space_of(type, mesh, from, wanted, costs);
  std::vector<int> ends;
  ends.reserve(wanted.size());
  for (const Layout& target : wanted) ends.push_back(space.number(target));
  Search search(space, space.number(from));
  search.run(ends);
  std::vector<std::pair<int, int>> pairs;
  search.collect((1 << ends.size()) - 1, space.number(from), pairs);
  TransitionTree out;
  for (auto [begin, end] : pairs) {
    TransitionStep step{0, Move::slice, Layout(mesh.axes.size()), Layout(mesh.axes.size())};
    space.unpack(begin, step.from);
    space.unpack(end, step.to);
    while (step.from[step.axis] == step.to[step.axis]) ++step.axis;
    step.move = *move_between(step.from[step.axis], step.to[step.axis]);
    out.seconds += step_seconds(type, mesh, step, costs);
    out.steps.push_back(std::move(step));
  }
  return out;
}

}  // namespace karez
