// Linear programs of sums that must reach a least: a dual simplex method that takes rows as they come, for branch and
// bound.
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

// Minimises price * x where rows hold and low <= x <= high. A value: a search copies it for a child with narrower
// bounds or more rows and solves on from there. Every variable is kept as an affine function of as many slacks that are
// zero now; a row that does not hold makes its own slack zero in place of one of them (Lemke's dual simplex method,
// 1954, with rows by demand).
class CoverProgram {
 public:
  enum class Outcome : std::uint8_t { solved, infeasible, stopped };

  CoverProgram(std::vector<double> prices, std::span<const int> low);  // prices >= 0

  // `rows` holds at least those of earlier calls, in the same places. At most `most_pivots` pivots.
  Outcome solve(std::span<const CoverRow> rows, std::span<const int> low, std::span<const int> high, int most_pivots);

  std::span<const double> values() const { return values_; }
  // No x within the bounds costs less: by weak duality from the rows' prices, whatever rounding the tableau has
  // gathered. Infinite where `solve` said impossible and that is certain.
  double bound(std::span<const CoverRow> rows, std::span<const int> low, std::span<const int> high) const;

 private:
  double dual_value(std::span<const CoverRow> rows, std::span<const int> low, std::span<const int> high,
                    std::span<const double> prices, std::span<const std::pair<int, double>> weights) const;

  std::size_t count_;
  std::vector<double> prices_, values_;
  std::vector<std::vector<double>> factors_;  // by variable and slack; empty: one for its own, as in the beginning
  std::vector<double> costs_;                 // of raising a slack
  std::vector<int> slack_of_;                 // row, or -1: a variable's own bound
  std::vector<std::pair<int, double>> ray_;   // weights of rows that cannot hold together
  std::vector<double> gain_;
};

}  // namespace karez::solve
