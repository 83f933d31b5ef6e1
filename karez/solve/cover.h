// Covering linear programs for branch and bound, solved by a dual simplex method that accepts additional rows.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "karez/solve/namespace.h"

namespace karez::solve {

struct CoverRow {
  std::vector<std::pair<int, std::int64_t>> terms;  // variable and factor
  std::int64_t bound = 0;                           // sum of factor * variable >= bound
};

// Minimises price * x subject to rows and low <= x <= high. A branch-and-bound search copies the program for a child
// with narrower bounds or more rows, and continues from the copied state. Every variable is an affine function of
// count_ slacks that are currently zero. A pivot on a violated row replaces one of these slacks by the slack of the row
// (Lemke's dual simplex method, 1954, with rows added on demand).
class CoverProgram {
 public:
  enum class Outcome : std::uint8_t { solved, infeasible, stopped };

  CoverProgram(std::vector<double> prices, std::span<const int> low);  // prices >= 0

  // `rows` must begin with the rows of earlier calls. Makes at most `max_pivots` pivots.
  Outcome solve(std::span<const CoverRow> rows, std::span<const int> low, std::span<const int> high, int max_pivots);

  std::span<const double> values() const { return values_; }
  // Returns a lower bound on the price of every feasible x. The bound is derived from the dual prices of the rows by
  // weak duality, so it is valid in spite of rounding in the tableau. It is infinite if `solve` returned infeasible and
  // the rows prove it.
  double bound(std::span<const CoverRow> rows, std::span<const int> low, std::span<const int> high) const;

 private:
  double dual_value(std::span<const CoverRow> rows, std::span<const int> low, std::span<const int> high,
                    std::span<const double> prices, std::span<const std::pair<int, double>> weights) const;

  std::size_t count_;
  std::vector<double> prices_, values_;
  std::vector<std::vector<double>> factors_;  // by variable and slack; empty if the variable equals its own slack
  std::vector<double> costs_;                 // by slack: the cost of raising it
  std::vector<int> slack_of_;                 // by slack: its row, or -1 for the bound of a variable
  std::vector<std::pair<int, double>> ray_;   // weights of rows that prove infeasibility
  std::vector<double> gain_;
};

}  // namespace karez::solve
