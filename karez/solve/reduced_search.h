// Reduced problems, which have only the states that a lower bound leaves possible. A search solves them exactly, with
// an increasing number of states.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "karez/solve/dual_bound.h"
#include "karez/solve/namespace.h"

namespace karez::solve {

// A lower bound for a problem that is too large for elimination. It refers to the problem's cells.
class LowerBound {
 public:
  // `count` passes, and at least one, are made, unless the bound stops rising earlier. If `ceiling`, the largest useful
  // bound, is finite, up to four times as many are made, as long as they raise the bound considerably or fast enough to
  // reach `ceiling`.
  struct PassLimits {
    int count = 0;
    std::size_t cheap_cells = 0;  // variables with results of at most this size are eliminated first
    double ceiling = std::numeric_limits<double>::infinity();
    double target = std::numeric_limits<double>::infinity();  // passes pause at this bound
  };
  LowerBound(const MinSumProblem&, const PassLimits&);
  bool is_paused() const { return paused_; }
  void resume();  // makes the remaining passes
  int passes() const { return passes_made_; }
  double bound() const { return bound_; }     // +inf if every choice is forbidden
  double rounding() const { return slack_; }  // rounding error of sums over all factors
  StateMasks candidate_states(double excess) const { return states_within(plan_, reweighting_, excess); }
  const std::vector<int>& rounded_choice() const {
    return rounded_choice_;
  }  // a choice derived from the bound; it may be forbidden

 private:
  void raise(double target);
  PassLimits limits_;
  Elimination plan_;
  Reweighting reweighting_;
  int passes_made_ = 0;
  double last_bound_ = -std::numeric_limits<double>::infinity();  // the bound before the last group of passes
  bool paused_ = false;
  double slack_, bound_ = 0;
  std::vector<int> rounded_choice_;
};

// Returns the exact minimum if elimination needs only tables of at most `table_cells` cells; otherwise nullopt.
std::optional<MinSumResult> solve_by_elimination(const MinSumProblem&, std::size_t table_cells);

struct ReducedSolution {
  std::vector<int> choice;  // empty if every choice is forbidden
  double cost = 0;
  bool best = true;  // true if no choice of the given states costs less
};
// Finds a good choice that uses only the given states; returns nullopt if this is too much work.
using ReducedSolver = std::function<std::optional<ReducedSolution>(const StateMasks&)>;

struct ReducedSearchResult {
  double bound = 0;  // a lower bound for the full problem
  bool better = false, optimal = false;
};
// Improves `choice`, which costs `cost`. Solves the problem for the states whose cost exceeds the bound by a small
// amount, then by twice this amount, and so on, as long as `solve_reduced` finds an answer. The result is optimal if
// every omitted state is proven to cost at least as much.
ReducedSearchResult search_reduced(const LowerBound&, const ReducedSolver&, std::vector<int>& choice, double& cost);

}  // namespace karez::solve
