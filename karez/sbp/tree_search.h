// The search of TransitionTable for the cheapest trees of steps. It runs backwards from sets of targets, over all
// layouts of one tensor.
#pragma once

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "karez/sbp/namespace.h"
#include "karez/sbp/transition.h"

namespace karez::sbp {

// Costs are compared as integers, so that sums in a different order are still equal. One unit is 2^-44 of an upper
// bound on the cost of a step. Each step costs 16 additional units, so that among trees of equal cost the one with
// fewer steps wins in spite of rounding.
using CostUnits = std::int64_t;
// The sum of two infinite costs does not overflow.
inline constexpr CostUnits infinite_cost = std::numeric_limits<CostUnits>::max() / 4;

// All layouts of a tensor, numbered in ascending order: each axis' entry is a digit, and the digit of the first axis is
// the most significant.
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

unsigned kinds_of(const Layout& layout);  // the kinds of Partial in the layout, as bits

// Costs of the steps into one state, by axis and by the digit from which a step starts; computed on first use.
class PredecessorCosts {
 public:
  explicit PredecessorCosts(const LayoutSpace& space);
  // Units of each step into `state`, at [axis * entries + digit]; infinite_cost if there is no step.
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

// All searches in one space, one for each set of targets. Each search finds the trees from every start. The caller
// numbers the sets of targets; 0 is the empty set.
class TreeSearch {
 public:
  // Layouts may have only the given kinds of Partial.
  TreeSearch(const TensorType& type, const Mesh& mesh, unsigned kinds, const CostTable& costs);
  TreeSearch(const TreeSearch&) = delete;  // predecessors_ refers to space_

  const LayoutSpace& space() const { return space_; }
  bool has_result(int set) const { return static_cast<std::size_t>(set) < best_.size() && !best_[set].empty(); }
  // Runs the search for one set. `subsets` contains the numbers of its subsets, indexed by a bit mask of targets. All
  // proper subsets must already have results. The search for a set of one target starts at `target_state`.
  void run(int set, const std::vector<int>& subsets, int target_state);
  // Appends the steps as pairs of states, in pre-order: each step starts where an earlier one ended, or at the root.
  void collect(int set, int state, std::vector<std::pair<int, int>>& steps) const;

 private:
  // For one state and one set of targets: the cost of the cheapest tree from the state to the targets, and its first
  // branch.
  struct BestTree {
    CostUnits units = infinite_cost;
    int part = 0;   // if 0, the tree begins with a step to the state `rest`, or is empty if `rest` is -1
    int rest = -1;  // if `part` is not 0, two trees start at the state, for the sets `part` and `rest`
  };
  void merge(int set, const std::vector<int>& subsets);
  void grow(std::vector<BestTree>& best);

  LayoutSpace space_;
  PredecessorCosts predecessors_;
  std::vector<std::vector<BestTree>> best_;      // by set of targets, by state
  std::vector<std::pair<CostUnits, int>> heap_;  // negated, since a standard heap has its largest element first
};

}  // namespace karez::sbp
