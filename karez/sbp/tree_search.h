// Cheapest trees of steps, searched backwards from sets of targets over all layouts of one tensor: the machine behind
// TransitionTable.
#pragma once

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "karez/sbp/namespace.h"
#include "karez/sbp/transition.h"

namespace karez::sbp {

// Costs are compared as integers, so that sums in another order still tie. One unit is 2^-44 of what a step could cost
// at most; each step adds a little, so that of equal costs the one of fewer steps wins, whatever the rounding of
// doubles did.
using CostUnits = std::int64_t;
inline constexpr CostUnits infinite_cost = std::numeric_limits<CostUnits>::max() / 4;  // two may be added up

// All layouts of a tensor, numbered in their order: entry lists as digits, the first axis most significant.
struct LayoutSpace {
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

unsigned kinds_of(const Layout& layout);  // kinds of Partial as bits

// The steps into one state, by axis and by the digit they come from; worked out when first asked for.
class PredecessorCosts {
 public:
  explicit PredecessorCosts(const LayoutSpace& space);
  // Units of each predecessor of `state`: [axis * entries + digit], `never` where there is no step.
  const CostUnits* of(int state);

 private:
  void fill(int state, CostUnits* row);
  CostUnits price(Move move, Sbp from, Sbp to, int axis) const;

  const LayoutSpace& space_;
  int width_;
  std::vector<char> known_;
  std::vector<CostUnits> units_;
  Layout layout_;
  Shape shape_;
};

// All searches in one space: one serves every start. Sets of targets go by numbers that the caller gives; 0 is the
// empty one.
class TreeSearch {
 public:
  TreeSearch(const TensorType& type, const Mesh& mesh, unsigned kinds,
             const CostTable& costs);      // of Partial only these kinds
  TreeSearch(const TreeSearch&) = delete;  // into_ looks at space_

  const LayoutSpace& space() const { return space_; }
  bool has_result(int set) const { return static_cast<std::size_t>(set) < best_.size() && !best_[set].empty(); }
  // The search for one set. `subsets` are the numbers of its subsets, by the bits of the targets in it: all smaller
  // ones are known. A set of one target starts at the state `only`.
  void run(int set, const std::vector<int>& subsets, int target_state);
  // Pairs of states, in pre-order: each step starts where an earlier one ended, or at the root.
  void collect(int set, int state, std::vector<std::pair<int, int>>& steps) const;

 private:
  // What stands at one state for one set of targets: the cheapest tree from here that reaches them, and its first
  // branch.
  struct BestTree {
    CostUnits units = infinite_cost;
    int part = 0;   // 0: one step to the state `rest`, or none where that is -1
    int rest = -1;  // else two trees start here, for the sets `part` and `rest`
  };
  void merge(int set, const std::vector<int>& subsets);
  void grow(std::vector<BestTree>& best);

  LayoutSpace space_;
  PredecessorCosts predecessors_;
  std::vector<std::vector<BestTree>> best_;      // by set of targets, by state
  std::vector<std::pair<CostUnits, int>> heap_;  // negated: the standard heap has its largest first
};

}  // namespace karez::sbp
