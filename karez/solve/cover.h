// Covering linear programs: a dual simplex method that accepts additional rows, for branch and bound.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "karez/solve/namespace.h"

namespace karez::solve {

struct CoverRow {
  std::vector<std::pair<int, std::int64_t>> terms;  // variable and factor
  std::int64_t least = 0;                           // sum of factor * variable >= least
};

// Minimises price * x subject to rows and low <= x <= high. A search copies the program for a child with narrower
// bounds or more rows and continues to solve from there. Every variable is an affine function of count_ slacks that are
// currently zero; a violated row replaces one of them by its own slack (Lemke's dual simplex method, 1954, with rows
// added on demand).
class CoverProgram {
 public:
  enum class Outcome : std::uint8_t { solved, infeasible, stopped };

  CoverProgram(std::vector<double> prices, std::span<const int> low);  // prices >= 0

  // `rows` must begin with the rows of earlier calls. Makes at most `most_pivots` pivots.
  Outcome solve(std::span<const CoverRow> rows, std::span<const int> low, std::span<const int> high, int max_pivots);

  std::span<const double> values() const { return values_; }
  // A lower bound on the price of every feasible x, by weak duality from the rows' prices, valid in spite of rounding
  // in the tableau. Infinite if `solve` returned infeasible and this is certain.
  double bound(std::span<const CoverRow> rows, std::span<const int> low, std::span<const int> high) const;

 private:
  double dual_value(std::span<const CoverRow> rows, std::span<const int> low, std::span<const int> high,
                    std::span<const double> prices, std::span<const std::pair<int, double>> weights) const;

  std::size_t count_;
  std::vector<double> prices_, values_;
  std::vector<std::vector<double>> factors_;  // by variable and slack; empty if only its own slack has factor 1
  std::vector<double> costs_;                 // by slack: the cost of raising it
  std::vector<int> slack_of_;                 // by slack: its row, or -1 for a variable's own bound
  std::vector<std::pair<int, double>> ray_;   // weights of rows that prove infeasibility
  std::vector<double> gain_;
};

}  // namespace karez::solve
