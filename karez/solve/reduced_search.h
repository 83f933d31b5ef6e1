// Choices among few states: those that a lower bound leaves within reach, solved exactly, more and more of them.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "karez/solve/dual_bound.h"
#include "karez/solve/namespace.h"

namespace karez::solve {

// A lower bound of a problem that is too large to be eliminated. Borrows the problem's cells.
class LowerBound {
 public:
  // As many passes, at least one, and up to four times as many while they raise the bound by much, or by enough to
  // reach what is at most wanted, `ceiling`, by and by.
  struct PassLimits {
    int count = 0;
    std::size_t cheap_cells = 0;  // variables that leave no larger table go first
    double ceiling = std::numeric_limits<double>::infinity();
    double target = std::numeric_limits<double>::infinity();  // a bound at which it rests
  };
  LowerBound(const MinSumProblem&, const PassLimits&);
  bool is_paused() const { return paused_; }
  void resume();  // with the passes that were left
  int passes() const { return made_; }
  double bound() const { return bound_; }     // +inf: everything is forbidden
  double rounding() const { return slack_; }  // of sums over the whole problem
  StateMasks candidate_states(double excess) const { return states_within(plan_, r_, excess); }
  const std::vector<int>& rounded_choice() const {
    return rounded_choice_;
  }  // a choice that follows the bound; may be forbidden

 private:
  void raise(double target);
  PassLimits passes_;
  Elimination plan_;
  Reweighting r_;
  int made_ = 0;                                              // passes
  double before_ = -std::numeric_limits<double>::infinity();  // the bound when the last group of passes began
  bool paused_ = false;
  double slack_, bound_ = 0;
  std::vector<int> rounded_choice_;
};

// The exact minimum, where elimination takes tables of at most so many cells.
std::optional<MinSumResult> solve_by_elimination(const MinSumProblem&, std::size_t table_cells);

struct ReducedSolution {
  std::vector<int> choice;  // empty: none is allowed
  double cost = 0;
  bool best = true;  // of all that is made of the states given
};
// A good choice made of these states alone; nothing where that is too much work.
using ReducedSolver = std::function<std::optional<ReducedSolution>(const StateMasks&)>;

struct ReducedSearchResult {
  double bound = 0;  // of the whole problem
  bool better = false, optimal = false;
};
// Improves `choice` of cost `cost` by looking at the states whose cost exceeds the bound by little, then by twice as
// much, and so on while `solve_reduced` has an answer. Optimal: nothing that could be cheaper was left out.
ReducedSearchResult search_reduced(const LowerBound&, const ReducedSolver&, std::vector<int>& choice, double& cost);

}  // namespace karez::solve
