// Tests of covering linear programs: solutions are feasible, and their price equals the dual bound.
#include "karez/solve/cover.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "karez/base/cat.h"
#include "karez/base/test_golden.h"

namespace karez::solve {
namespace {
struct Program {
  std::vector<double> prices;
  std::vector<int> low, high;
  std::vector<CoverRow> rows;
};

Program random_program(std::mt19937& random) {
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Program p;
  int count = 1 + below(8);
  for (int i = 0; i < count; ++i) {
    p.prices.push_back(below(10));
    p.low.push_back(1 + below(3));
    p.high.push_back(p.low.back() + below(6));
  }
  for (int r = below(12); r > 0; --r) {
    CoverRow row;
    std::int64_t max_sum = 0;
    for (int i = 0; i < count; ++i)
      if (below(2) == 0) {
        row.terms.emplace_back(i, 1 + below(4));
        max_sum += row.terms.back().second * p.high[i];
      }
    row.bound = max_sum - below(static_cast<int>(max_sum) + 1) + (below(25) == 0 ? 1 : 0);
    p.rows.push_back(std::move(row));
  }
  return p;
}

bool is_satisfied(const CoverRow& row, auto value, double slack) {
  double sum = slack - static_cast<double>(row.bound);
  for (auto [i, factor] : row.terms) sum += static_cast<double>(factor) * value(i);
  return sum >= 0;
}

// Factors are positive, so the program is feasible if the highest values satisfy all rows. A solution must satisfy the
// rows and cost as much as the bound, so that no other solution is cheaper.
bool expect_solved(const Program& p, CoverProgram& program) {
  auto outcome = program.solve(p.rows, p.low, p.high, 10'000);
  bool feasible = true;
  for (const CoverRow& row : p.rows)
    feasible &= is_satisfied(
        row, [&](int i) { return p.high[i]; }, 0);
  EXPECT_EQ(outcome, feasible ? CoverProgram::Outcome::solved : CoverProgram::Outcome::infeasible);
  double bound = program.bound(p.rows, p.low, p.high), price = 0;
  if (!feasible) {
    EXPECT_EQ(bound, std::numeric_limits<double>::infinity());
    return false;
  }
  for (std::size_t i = 0; i < p.prices.size(); ++i) {
    EXPECT_GE(program.values()[i], p.low[i] - 1e-6);
    EXPECT_LE(program.values()[i], p.high[i] + 1e-6);
    price += p.prices[i] * program.values()[i];
  }
  for (const CoverRow& row : p.rows)
    EXPECT_TRUE(is_satisfied(
        row, [&](int i) { return program.values()[i]; }, 1e-5));
  EXPECT_LE(bound, price + 1e-5);
  EXPECT_GE(bound, price - 1e-5);
  return true;
}

TEST(CoverProgram, TheSolutionCostsAsMuchAsTheBound) {
  int solved = 0, infeasible = 0, integer_values = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    Program p = random_program(random);
    CoverProgram program(p.prices, p.low);
    bool feasible = expect_solved(p, program);
    if (HasFailure()) return;
    (feasible ? solved : infeasible) += 1;
    for (double v : program.values()) integer_values += feasible && std::abs(v - std::round(v)) < 1e-9;
    // Make a child of the program, in which one bound changes and one row is added.
    std::size_t i = random() % p.low.size();
    CoverProgram child = program;
    if (random() % 2 == 0) p.low[i] = std::min(p.low[i] + 1, p.high[i]);
    else p.high[i] = std::max(p.high[i] - 1, p.low[i]);
    if (feasible) p.rows.push_back({{{static_cast<int>(i), 1}}, p.low[i]});
    expect_solved(p, child);
    if (HasFailure()) return;
  }
  EXPECT_GT(solved, 1000);
  EXPECT_GT(infeasible, 50);
  EXPECT_GT(integer_values, 0);
}

// If all values are integers, the bound must not exceed the price of this solution, not even by rounding.
TEST(CoverProgram, RoundingDoesNotRaiseTheBoundAboveThePriceOfAnIntegerSolution) {
  int integer_values = 0, pivots = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    Program p = random_program(random);
    for (double& price : p.prices) price = price * 1e7 + static_cast<double>(random() % 10'000'000u) / 7;
    CoverProgram program(p.prices, p.low);
    CoverProgram::Outcome outcome = CoverProgram::Outcome::stopped;
    for (; outcome == CoverProgram::Outcome::stopped; ++pivots) outcome = program.solve(p.rows, p.low, p.high, 1);
    if (outcome == CoverProgram::Outcome::infeasible) continue;
    std::vector<double> rounded;
    long double price = 0;
    bool all_integer = true;
    for (std::size_t i = 0; i < p.prices.size(); ++i) {
      rounded.push_back(std::round(program.values()[i]));
      all_integer = all_integer && std::abs(program.values()[i] - rounded.back()) < 1e-9;
      price += static_cast<long double>(p.prices[i]) * rounded.back();
    }
    if (!all_integer) continue;
    ++integer_values;
    for (const CoverRow& row : p.rows)
      ASSERT_TRUE(is_satisfied(
          row, [&](int i) { return rounded[static_cast<std::size_t>(i)]; }, 0));
    ASSERT_LE(static_cast<long double>(program.bound(p.rows, p.low, p.high)), price) << "seed " << seed;
  }
  EXPECT_GT(integer_values, 500);
  EXPECT_TRUE(pinned_at_most(pivots, 8410));
}

TEST(CoverProgram, AStoppedProgramHasAValidBound) {
  std::vector<CoverRow> rows{{{{0, 1}, {1, 1}}, 5}, {{{1, 1}, {2, 1}}, 5}, {{{0, 1}, {2, 1}}, 5}};
  std::vector<int> low{1, 1, 1}, high{9, 9, 9};
  CoverProgram program({1, 1, 1}, low);
  double last = 0;
  for (auto outcome = CoverProgram::Outcome::stopped; outcome == CoverProgram::Outcome::stopped;) {
    outcome = program.solve(rows, low, high, 1);
    double bound = program.bound(rows, low, high);
    EXPECT_GE(bound, last);
    EXPECT_LE(bound, 7.5);
    last = bound;
  }
  EXPECT_NEAR(last, 7.5, 1e-9);  // each variable is 2.5
}

}  // namespace
}  // namespace karez::solve
