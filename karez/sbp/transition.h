// Transitions between layouts: steps on one axis with their seconds, and the cheapest tree of steps from one
// layout to several others.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "karez/sbp/cost.h"
#include "karez/sbp/namespace.h"
#include "karez/sbp/sbp.h"

namespace karez::sbp {

// How a step changes the entry of one axis. The first two moves are local: no bytes are sent between devices.
//   slice           B -> S(i)  keeps the device's part
//   to_partial      S -> P     keeps the device's part; the rest is filled with the identity of the reduction
//                   B -> P     for sums, one member keeps the value and the others get zeros; for max and min, the
//                              result aliases the value
//   all_gather      S(i) -> B
//   all_to_all      S(i) -> S(j)
//   reduce_scatter  P -> S(i)
//   all_reduce      P -> B
enum class Move { slice, to_partial, all_gather, all_to_all, reduce_scatter, all_reduce };
std::string_view name_of(Move move);
Move move_from(std::string_view name);
inline bool is_local(Move move) { return move == Move::slice || move == Move::to_partial; }

// One step changes the entry of `axis` and keeps all others. It is legal only if the boxes nest: an axis cannot change
// a dimension that a later axis also splits.
struct TransitionStep {
  int axis = 0;
  Move move = Move::slice;
  Layout from, to;
  bool operator==(const TransitionStep&) const = default;
};

// Algorithms of all_reduce, described in karez/comm/collective/collective.h. For n members that hold S bytes each, all
// of them send 2 (n-1) S bytes in total.
// `direct` is used for up to 8 members, `recursive` for more if n is a power of two, `ring` for all other n, and `flat`
// for two members if it is cheaper.
enum class AllReduceAlgorithm { direct, ring, recursive, flat };
AllReduceAlgorithm all_reduce_of(const TensorType& type, const Mesh& mesh, const TransitionStep& step,
                                 const CostTable& costs);
// True if moves among this many members use a ring. An all_reduce uses it only if the number is not a power of two.
bool uses_ring(int members);

// Returns the seconds of the step: messages x alpha + bytes sent by the busiest device x beta + bytes copied or reduced
// by the busiest device / memory rate. S is the size of the group's tensor in bytes, and p(i) is the size of part i.
//   messages            n-1; for all_reduce 2 (n-1), with `recursive` 2 log2 n, with `flat` 1
//   bytes sent          all_gather (n-1) p(0); reduce_scatter S - p(n-1); all_to_all the largest amount that a member
//                       does not keep; all_reduce S + (n-2) ceil(S / n)
//   copied or reduced   the member's part; for reduce_scatter and all_reduce n parts, with `flat` n S; for slice 0; for
//                       to_partial S, but 0 for B -> P(max | min)
double seconds(const TensorType& type, const Mesh& mesh, const TransitionStep& step, const CostTable& costs);

// The cheapest set of steps from `from` that reaches every target, ordered so that each step starts from a layout that
// exists. The result is exact (Dreyfus-Wagner) over all layouts made of splits, Broadcast and the kinds of Partial that
// `from` or a target has. Among trees of equal cost, the one with the fewest steps is chosen, then the first in the
// order of layouts.
struct TransitionTree {
  std::vector<TransitionStep> steps;
  double seconds = 0;
};
TransitionTree transition_tree(const TensorType& type, const Mesh& mesh, const Layout& from,
                               const std::vector<Layout>& targets, const CostTable& costs);

// Computes the same trees for one type on one mesh, with cached searches, for thousands of requests. The table assigns
// numbers to layouts and to sets of targets.
class TransitionTable {
 public:
  TransitionTable(const TensorType& type, const Mesh& mesh, const CostTable& costs);
  ~TransitionTable();
  int number(const Layout& layout);
  const Layout& layout(int number) const;
  int with(int set, int layout);  // the number of the set with one more target; set 0 is empty
  const std::vector<int>& layouts_in(int set) const;
  double seconds(int from, int set);
  TransitionTree tree(int from, int set);
  const TensorType& type() const;
  const Mesh& mesh() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace karez::sbp
