// Reduced problems: choices among the few states that a lower bound leaves possible, solved exactly with more and more
// states.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "karez/solve/dual_bound.h"
#include "karez/solve/namespace.h"

namespace karez::solve {

// A lower bound of a problem that is too large to be eliminated. It refers to the problem's cells.
class LowerBound {
 public:
  // At least `count` passes, and at least one; up to four times as many while they raise the bound by much, or fast
  // enough to reach `ceiling`, the largest useful bound, eventually.
  struct PassLimits {
    int count = 0;
    std::size_t cheap_cells = 0;  // variables with results of at most this size are eliminated first
    double ceiling = std::numeric_limits<double>::infinity();
    double target = std::numeric_limits<double>::infinity();  // a bound at which it pauses
  };
  LowerBound(const MinSumProblem&, const PassLimits&);
  bool is_paused() const { return paused_; }
  void resume();  // makes the remaining passes
  int passes() const { return made_; }
  double bound() const { return bound_; }     // +inf if every choice is forbidden
  double rounding() const { return slack_; }  // of sums over the whole problem
  StateMasks candidate_states(double excess) const { return states_within(plan_, r_, excess); }
  const std::vector<int>& rounded_choice() const {
    return rounded_choice_;
  }  // a choice derived from the bound; may be forbidden

 private:
  void raise(double target);
  PassLimits passes_;
  Elimination plan_;
  Reweighting r_;
  int made_ = 0;                                              // passes made
  double before_ = -std::numeric_limits<double>::infinity();  // the bound when the last group of passes began
  bool paused_ = false;
  double slack_, bound_ = 0;
  std::vector<int> rounded_choice_;
};

// The exact minimum, if elimination needs tables of at most `table_cells` cells; otherwise none.
std::optional<MinSumResult> solve_by_elimination(const MinSumProblem&, std::size_t table_cells);

struct ReducedSolution {
  std::vector<int> choice;  // empty if every choice is forbidden
  double cost = 0;
  bool best = true;  // no choice of the given states costs less
};
// Finds a good choice of the given states only; none if that is too much work.
using ReducedSolver = std::function<std::optional<ReducedSolution>(const StateMasks&)>;

struct ReducedSearchResult {
  double bound = 0;  // a lower bound of the whole problem
  bool better = false, optimal = false;
};
// Improves `choice` of cost `cost` with the states whose cost exceeds the bound by little, then by twice as much, and
// so on while `solve_reduced` finds an answer. The result is optimal if no state that could be cheaper was left out.
ReducedSearchResult search_reduced(const LowerBound&, const ReducedSolver&, std::vector<int>& choice, double& cost);

}  // namespace karez::solve
