// Transitions between layouts: steps on one axis with their bytes and seconds, and the cheapest tree from one layout to
// several.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "karez/sbp/cost.h"
#include "karez/sbp/namespace.h"
#include "karez/sbp/sbp.h"

namespace karez::sbp {

// The move that changes one axis' entry to another. The first two are local: no bytes are sent between devices.
//   slice           B -> S(i)  keeps the device's part
//   to_partial      S -> P     keeps the device's part; the rest is the identity of the reduction
//                   B -> P     for sums, one member keeps the value, the others get zeros; for max and min an alias
//   all_gather      S(i) -> B
//   all_to_all      S(i) -> S(j)
//   reduce_scatter  P -> S(i)
//   all_reduce      P -> B
enum class Move { slice, to_partial, all_gather, all_to_all, reduce_scatter, all_reduce };
std::string_view name_of(Move move);
Move move_from(std::string_view name);
inline bool is_local(Move move) { return move == Move::slice || move == Move::to_partial; }

// One step: the entry of `axis` changes, all others stay. It is legal only if the boxes nest: an axis cannot change a
// dimension that a later axis also splits.
struct TransitionStep {
  int axis = 0;
  Move move = Move::slice;
  Layout from, to;
  bool operator==(const TransitionStep&) const = default;
};

// Every legal single step from `from`, to layouts valid for `type`.
std::vector<TransitionStep> steps_from(const TensorType& type, const Mesh& mesh, const Layout& from);

// Bytes that all devices of the mesh together send to others in this step (exact for uneven parts):
// all_gather (n-1) S, reduce_scatter (n-1) S, all_to_all (n-1)/n S, all_reduce 2 (n-1) S, each per group of n with S
// the group's tensor.
std::int64_t bytes_sent(const TensorType& type, const Mesh& mesh, const TransitionStep& step);

// Algorithms of all_reduce, described in karez/comm/collective.h; all send 2 (n-1) S bytes in total. direct is for up
// to 8 members, recursive for more if n is a power of two, ring for all others, and flat for two if it is cheaper.
enum class AllReduceAlgorithm { direct, ring, recursive, flat };
std::string_view name_of(AllReduceAlgorithm algorithm);
AllReduceAlgorithm all_reduce_of(const TensorType& type, const Mesh& mesh, const TransitionStep& step,
                                 const CostTable& costs);
bool uses_ring(int members);  // for the other moves, and for all_reduce if n is not a power of two

// Seconds of the step: messages x alpha + the busiest device's bytes x beta, plus its local copying at the memory rate.
//   messages: n-1, all_reduce 2 (n-1), recursive 2 log2 n, flat 1
//   bytes of the busiest device, with parts p(i) and S the group's tensor: all_gather (n-1) p(0), reduce_scatter
//   S - p(n-1), all_to_all the most that a member does not keep, all_reduce S + (n-2) ceil(S / n)
//   bytes copied or reduced: the member's part; reduce_scatter and all_reduce n parts, flat n S; to_partial S, but 0
//   for B -> P(max | min); slice 0
double seconds(const TensorType& type, const Mesh& mesh, const TransitionStep& step, const CostTable& costs);

// The cheapest set of steps from `from` that reaches every target, ordered so that each step's `from` exists before it.
// Exact (Dreyfus-Wagner) over all layouts of splits, Broadcast and the kinds of Partial that `from` or a target has;
// ties are broken by fewest steps, then by the order of layouts.
struct TransitionTree {
  std::vector<TransitionStep> steps;
  double seconds = 0;
};
TransitionTree transition_tree(const TensorType& type, const Mesh& mesh, const Layout& from,
                               const std::vector<Layout>& targets, const CostTable& costs);

// The same trees for one type on one mesh, with cached searches, for thousands of requests. The table assigns numbers
// to layouts and to sets of targets.
class TransitionTable {
 public:
  TransitionTable(const TensorType& type, const Mesh& mesh, const CostTable& costs);
  ~TransitionTable();
  int number(const Layout& layout);
  const Layout& layout(int number) const;
  int with(int set, int layout);  // the set with one more target; set 0 is empty
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
