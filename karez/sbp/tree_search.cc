// The search over layouts: a directed Steiner tree by Dreyfus and Wagner ("The Steiner problem in graphs", Networks 1,
// 1971). With one target this is Dijkstra's shortest path.
#include "karez/sbp/tree_search.h"

#include <algorithm>
#include <cmath>

#include "karez/base/error.h"
#include "karez/sbp/axis_transition.h"

namespace karez::sbp {
namespace {
constexpr double units_per_max_step = 17592186044416.0;  // 2^44
constexpr CostUnits per_step = 16;

// The space has all splits, even of a dimension of size 1, because P(min) -> S -> P(max) has half the messages of the
// path through Broadcast. It has Partial only of the kinds that the start or a target has: adding zeros without need
// would turn -0 into 0.
LayoutSpace space_of(const TensorType& type, const Mesh& mesh, unsigned kinds, const CostTable& costs) {
  LayoutSpace out{type, mesh, {}, {}, 1, {}, costs.memory_bytes, 0};
  for (int d = 0; d < type.rank(); ++d) out.entries.push_back(S(d));
  out.entries.push_back(B());
  for (Reduce reduce : {Reduce::sum, Reduce::max, Reduce::min})
    if ((kinds >> static_cast<unsigned>(reduce) & 1U) != 0) out.entries.push_back(P(reduce));
  out.stride.resize(mesh.axes.size());
  double bytes = static_cast<double>(type.bytes()), max_step = 0;
  for (int a = mesh.rank() - 1; a >= 0; --a) {
    out.stride[a] = out.states;
    if (out.states > (1 << 20) / static_cast<int>(out.entries.size()))
      fail(ErrorKind::layout, "transition: ", type, " on ", print(mesh), " has too many layouts");
    out.states *= static_cast<int>(out.entries.size());
  }
  for (const MeshAxis& axis : mesh.axes) {
    out.link.push_back(&costs.of_axis(axis.name));
    max_step =
        std::max(max_step,
                 2 * axis.size * (out.link.back()->alpha + bytes * out.link.back()->beta + bytes / costs.memory_bytes));
  }
  out.scale = max_step > 0 ? units_per_max_step / max_step : 0;
  return out;
}
}  // namespace

unsigned kinds_of(const Layout& layout) {
  unsigned kinds = 0;
  for (Sbp entry : layout)
    if (entry.is_partial()) kinds |= 1U << static_cast<unsigned>(entry.reduce);
  return kinds;
}

PredecessorCosts::PredecessorCosts(const LayoutSpace& space)
    : space_(space),
      width_(static_cast<int>(space.entries.size()) * space.mesh.rank()),
      known_(space.states, false),
      units_(static_cast<std::size_t>(space.states) * width_),
      layout_(space.mesh.rank()) {}

const CostUnits* PredecessorCosts::of(int state) {
  CostUnits* row = &units_[static_cast<std::size_t>(state) * width_];
  if (!known_[state]) fill(state, row);
  return row;
}

void PredecessorCosts::fill(int state, CostUnits* row) {
  known_[state] = true;
  space_.unpack(state, layout_);
  int entries = static_cast<int>(space_.entries.size());
  for (int a = 0; a < space_.mesh.rank(); ++a) {
    shape_ = space_.type.shape;
    const Sbp* partial = nullptr;  // the kind of Partial on the other axes
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
      row[a * entries + e] =
          move && one_kind && boxes_nest(space_.mesh, layout_, a, from, to) ? price(*move, from, to, a) : infinite_cost;
    }
  }
}

CostUnits PredecessorCosts::price(Move move, Sbp from, Sbp to, int axis) const {
  double seconds = move_seconds(move, from, to, space_.mesh.axes[axis].size, shape_, size_of(space_.type.dtype),
                                *space_.link[axis], space_.memory_bytes);
  return static_cast<CostUnits>(std::llround(seconds * space_.scale)) + per_step;
}

TreeSearch::TreeSearch(const TensorType& type, const Mesh& mesh, unsigned kinds, const CostTable& costs)
    : space_(space_of(type, mesh, kinds, costs)),
      predecessors_(space_) {}

void TreeSearch::run(int set, const std::vector<int>& subsets, int target_state) {
  if (best_.size() <= static_cast<std::size_t>(set)) best_.resize(static_cast<std::size_t>(set) + 1);
  best_[set].resize(space_.states);
  if (subsets.size() == 2) {
    best_[set][target_state].units = 0;
  } else {
    merge(set, subsets);
  }
  grow(best_[set]);
}

void TreeSearch::collect(int set, int state, std::vector<std::pair<int, int>>& steps) const {
  while (true) {
    const BestTree& best = best_[set][state];
    require(ErrorKind::layout, best.units < infinite_cost,
            "transition: a target cannot be reached");  // a failure is a bug: every layout is connected to Broadcast
    if (best.part != 0) {
      collect(best.part, state, steps);
      set = best.rest;
    } else if (best.rest >= 0) {
      steps.emplace_back(state, best.rest);
      state = best.rest;
    } else {
      return;
    }
  }
}

void TreeSearch::merge(int set, const std::vector<int>& subsets) {
  std::size_t full = subsets.size() - 1;
  for (std::size_t part = (full - 1) & full; part > (full ^ part);
       part = (part - 1) & full) {  // visits each partition of the set once
    const std::vector<BestTree>&first = best_[subsets[part]], &second = best_[subsets[full ^ part]];
    for (int s = 0; s < space_.states; ++s) {
      CostUnits units = first[s].units + second[s].units;
      if (units < best_[set][s].units) best_[set][s] = {units, subsets[part], subsets[full ^ part]};
    }
  }
}

void TreeSearch::grow(std::vector<BestTree>& best) {
  heap_.clear();
  for (int s = 0; s < space_.states; ++s)
    if (best[s].units < infinite_cost) heap_.emplace_back(-best[s].units, -s);
  std::make_heap(heap_.begin(), heap_.end());
  int entries = static_cast<int>(space_.entries.size());
  while (!heap_.empty()) {
    auto [negated_units, negated_state] = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
    int to = -negated_state;
    if (-negated_units != best[to].units) continue;  // a cheaper path was found after this entry
    const CostUnits* steps = predecessors_.of(to);
    for (int a = 0; a < space_.mesh.rank(); ++a) {
      int base = to - space_.digit(to, a) * space_.stride[a];
      for (int e = 0; e < entries; ++e) {
        CostUnits step = steps[a * entries + e];
        if (step == infinite_cost) continue;
        BestTree& candidate = best[base + e * space_.stride[a]];
        CostUnits units = best[to].units + step;
        if (units > candidate.units || (units == candidate.units && (candidate.part != 0 || candidate.rest < to)))
          continue;
        bool cheaper = units < candidate.units;
        candidate = {units, 0, to};
        if (!cheaper) continue;
        heap_.emplace_back(-units, -(base + e * space_.stride[a]));
        std::push_heap(heap_.begin(), heap_.end());
      }
    }
  }
}

}  // namespace karez::sbp
