// Tests of min_sum: compares it with brute force on small graphs and with dynamic programming on long ones.
#include "karez/solve/min_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "karez/base/error.h"
#include "karez/base/test_error.h"

namespace karez::solve {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();

// The cost of a choice, computed independently of the tested code.
double sum_of(const MinSumProblem& p, const std::vector<int>& choice) {
  double cost = 0;
  for (const Factor& f : p.factors) {
    std::size_t cell = 0;
    for (std::size_t a = 0; a < f.scope.size(); ++a) {
      const int v = f.scope[a], s = choice[v];
      const auto& classes = f.cells->classes[a];
      int count = p.domain[v];
      if (!classes.empty()) count = *std::max_element(classes.begin(), classes.end()) + 1;
      cell = cell * count + (classes.empty() ? s : classes[s]);
    }
    if (f.cells->implied_class.empty()) {
      cost += f.cells->cost[cell];
      continue;
    }
    const auto& last = f.cells->classes.back();
    const int count = last.empty() ? p.domain[f.scope.back()] : *std::max_element(last.begin(), last.end()) + 1;
    if (f.cells->implied_class[cell / count] != static_cast<int>(cell % count)) return inf;
  }
  return cost;
}

double brute_force(const MinSumProblem& p) {
  std::vector<int> choice(p.domain.size(), 0);
  double best = inf;
  while (true) {
    best = std::min(best, sum_of(p, choice));
    std::size_t v = 0;
    while (v < choice.size() && ++choice[v] == p.domain[v]) choice[v++] = 0;
    if (v == choice.size()) return best;
  }
}

enum class Costs { real, ties, forbidding, signs };

// Random classes of a variable's states; each class has at least one state.
std::vector<int> random_classes(std::mt19937& random, int states) {
  std::vector<int> classes;
  int count = 1 + static_cast<int>(random() % states);
  for (int s = 0; s < states; ++s) classes.push_back(s < count ? s : static_cast<int>(random() % count));
  std::shuffle(classes.begin(), classes.end(), random);
  return classes;
}

// Scopes are in any order; some name a variable twice, are empty, or are equal to an earlier scope. Half of the axes
// have classes, and some factors share the cells of an earlier factor.
MinSumProblem random_problem(std::mt19937& random, int variables, int domain, int factors, int arity, Costs kind) {
  MinSumProblem p;
  auto below = [&](int n) { return static_cast<int>(random() % n); };
  for (int v = 0; v < variables; ++v) p.domain.push_back(1 + below(domain));
  for (int f = 0; f < factors; ++f) {
    Factor factor;
    auto cells = std::make_shared<CostCells>();
    std::size_t count = 1;
    for (int a = below(arity + 1); a > 0; --a) {
      factor.scope.push_back(below(variables));
      const int states = p.domain[factor.scope.back()];
      cells->classes.push_back(below(2) ? random_classes(random, states) : std::vector<int>{});
      count *= cells->classes.back().empty()
                   ? states
                   : *std::max_element(cells->classes.back().begin(), cells->classes.back().end()) + 1;
    }
    for (std::size_t c = 0; c < count; ++c) {
      double cost = kind == Costs::ties ? below(3) : below(1000) / 100.0;
      if (kind == Costs::forbidding && below(3) == 0) cost = inf;
      if (kind == Costs::signs) cost -= 5;
      cells->cost.push_back(cost);
    }
    factor.cells = cells;
    for (const Factor& earlier : p.factors)  // the same cells on other variables with the same numbers of states
      if (below(4) == 0 && earlier.scope.size() == factor.scope.size()) {
        bool same_states = true;
        for (std::size_t a = 0; a < factor.scope.size(); ++a)
          same_states &= p.domain[earlier.scope[a]] == p.domain[factor.scope[a]];
        if (same_states) factor.cells = earlier.cells;
      }
    p.factors.push_back(factor);
  }
  return p;
}

// Gives some factors implied classes, one class or none per joint class. Factors that shared cells still share them.
void imply_some_classes(std::mt19937& random, MinSumProblem& p) {
  std::map<const CostCells*, std::shared_ptr<const CostCells>> implied_cells;
  for (Factor& f : p.factors) {
    if (f.scope.empty() || random() % 3 != 0) continue;
    auto& shared_cells = implied_cells[f.cells.get()];
    if (!shared_cells) {
      auto cells = std::make_shared<CostCells>(CostCells{{}, f.cells->classes, {}});
      const auto& last = cells->classes.back();
      const int count = last.empty() ? p.domain[f.scope.back()] : *std::max_element(last.begin(), last.end()) + 1;
      for (std::size_t c = 0; c < f.cells->cost.size() / count; ++c)
        cells->implied_class.push_back(random() % 6 == 0 ? -1 : static_cast<int>(random() % count));
      shared_cells = cells;
    }
    f.cells = shared_cells;
  }
}

// `tolerance` is the rounding error permitted in `best`.
void expect_optimum(const MinSumProblem& p, const MinSumResult& r, double best, double tolerance = 1e-11) {
  ASSERT_TRUE(r.optimal) << r.method;
  ASSERT_EQ(r.feasible, best < inf) << r.method;
  ASSERT_LE(r.lower_bound, r.cost);
  if (!r.feasible) {
    EXPECT_TRUE(r.choice.empty());
    EXPECT_EQ(r.cost, inf);
    return;
  }
  ASSERT_NEAR(r.cost, best, tolerance) << r.method;
  ASSERT_EQ(r.choice.size(), p.domain.size());
  ASSERT_EQ(sum_of(p, r.choice), r.cost);
}

TEST(MinSum, TheSolutionEqualsBruteForceOnRandomGraphs) {
  int feasible = 0, forbidden = 0;
  for (int seed = 0; seed < 4000; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    auto kind = static_cast<Costs>(seed % 4);
    int variables = 1 + static_cast<int>(random() % 7);
    MinSumProblem p = random_problem(random, variables, 4, 1 + static_cast<int>(random() % 12), 3, kind);
    MinSumResult r = min_sum(p);
    expect_optimum(p, r, brute_force(p));
    if (HasFatalFailure()) return;
    (r.feasible ? feasible : forbidden) += 1;
  }
  EXPECT_GT(feasible, 1000);
  EXPECT_GT(forbidden, 100);
}

TEST(MinSum, TheBoundIsValidIfTablesAreTooSmallForElimination) {
  int unproven = 0, proven = 0, best_found = 0;
  for (int seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    MinSumProblem p = random_problem(random, 9, 5, 40, 3, static_cast<Costs>(seed % 4));
    double best = brute_force(p);
    MinSumResult r = min_sum(p, {.table_cells = 1 + random() % 3, .passes = static_cast<int>(random() % 12)});
    ASSERT_LE(r.lower_bound, best + 1e-9) << r.method;
    ASSERT_GE(r.cost, best - 1e-9) << r.method;
    ASSERT_LE(r.lower_bound, r.cost);
    if (r.feasible) { ASSERT_EQ(sum_of(p, r.choice), r.cost); }
    if (r.optimal) expect_optimum(p, r, best);
    if (HasFatalFailure()) return;
    unproven += !r.optimal;
    proven += r.optimal;
    best_found += r.cost <= best + 1e-9;
  }
  EXPECT_GT(unproven, 3);
  EXPECT_GT(proven, 250);
  EXPECT_GT(best_found, 290);
}

// The table limit is large enough for the few states that a bound leaves, but not for all states.
TEST(MinSum, ReducedProblemsOfLargeProblemsAreSolved) {
  int proven = 0, unproven = 0;
  for (int seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    MinSumProblem p{.domain = std::vector<int>(6, 5), .factors = {}};
    for (int v = 0; v < 6; ++v)
      for (int w = v + 1; w < 6; ++w) {
        std::vector<double> cost;
        for (int c = 0; c < 25; ++c) cost.push_back(static_cast<double>(random() % (seed % 2 ? 60 : 1000)) / 10);
        p.factors.push_back(factor({w, v}, cost));
      }
    imply_some_classes(random, p);
    const double best = brute_force(p);
    const MinSumResult r =
        min_sum(p, {.table_cells = std::size_t{8} << random() % 5, .passes = 1 + static_cast<int>(random() % 30)});
    ASSERT_LE(r.lower_bound, best + 1e-9) << r.method;
    if (r.feasible) { ASSERT_EQ(sum_of(p, r.choice), r.cost) << r.method; }
    if (r.optimal) expect_optimum(p, r, best);
    if (HasFatalFailure()) return;
    proven += r.optimal && r.method == "bound and reduced problems";
    unproven += !r.optimal;
  }
  EXPECT_GT(proven, 50);
  EXPECT_GT(unproven, 10);
}

// Sums differ by about 1e-10, so that a solver that mistakes these differences for rounding fails. Rounding errors are
// below 1e-14 in this test.
TEST(MinSum, AnOptimalResultEqualsBruteForceWithinTheTolerance) {
  for (int seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    MinSumProblem p = random_problem(random, 7, 3, 14, 3, Costs::ties);
    for (Factor& f : p.factors) {
      auto cells = std::make_shared<CostCells>(*f.cells);
      for (double& cost : cells->cost) cost = cost / 8 + static_cast<double>(random() % 20) * 5e-11;
      f.cells = cells;
    }
    double best = brute_force(p);
    for (std::size_t cells : {std::size_t{1}, std::size_t{1} << 24}) {
      expect_optimum(p, min_sum(p, {.table_cells = cells}), best);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(MinSum, OnlyImpliedClassesAreAllowed) {
  int feasible = 0, forbidden = 0;
  for (int seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    MinSumProblem p = random_problem(random, 6, 4, 2 + static_cast<int>(random() % 7), 3, static_cast<Costs>(seed % 4));
    imply_some_classes(random, p);
    const double best = brute_force(p);
    expect_optimum(p, min_sum(p), best);
    const MinSumResult r = min_sum(p, {.table_cells = 1 + random() % 3, .passes = static_cast<int>(random() % 12)});
    ASSERT_LE(r.lower_bound, best + 1e-9) << r.method;
    if (r.optimal) expect_optimum(p, r, best);
    if (r.feasible) { ASSERT_EQ(sum_of(p, r.choice), r.cost); }
    if (HasFatalFailure()) return;
    (best < inf ? feasible : forbidden) += 1;
  }
  EXPECT_GT(feasible, 1000);
  EXPECT_GT(forbidden, 300);
}

TEST(MinSum, AnEmptyProblemIsSolved) {
  MinSumResult r = min_sum({});
  EXPECT_TRUE(r.feasible && r.optimal);
  EXPECT_EQ(r.cost, 0);
}

TEST(MinSum, TheFirstOfEqualStatesIsPreferred) {
  MinSumProblem p{.domain = {3, 3}, .factors = {factor({0, 1}, std::vector<double>(9, 1.0))}};
  EXPECT_EQ(min_sum(p).choice, (std::vector<int>{0, 0}));
}

TEST(MinSum, InvalidProblemsAreErrors) {
  EXPECT_THROW(min_sum({.domain = {2}, .factors = {factor({0}, {1, 2, 3})}}), Error);
  EXPECT_EQ(error_of([] {
              min_sum({.domain = {2}, .factors = {factor({1}, {1, 2})}});
            }),
            "min_sum: factor 0 names variable 1, but the number of variables is 1");
  auto implied_problem = [](std::vector<int> implied) {
    return MinSumProblem{
        .domain = {2, 3},
        .factors = {{{0, 1}, std::make_shared<CostCells>(CostCells{{}, {{}, {}}, std::move(implied)})}}};
  };
  EXPECT_EQ(min_sum(implied_problem({2, -1})).choice, (std::vector<int>{0, 2}));
  EXPECT_THROW(min_sum(implied_problem({2, 3})), Error);  // there are three classes
  EXPECT_THROW(min_sum(implied_problem({2, -2})), Error);
  EXPECT_THROW(min_sum(implied_problem({2})), Error);  // two are required
  const auto both_kinds = std::make_shared<CostCells>(CostCells{std::vector<double>(6, 1.0), {{}, {}}, {2, -1}});
  EXPECT_THROW(min_sum({.domain = {2, 3}, .factors = {{{0, 1}, both_kinds}}}), Error);
  EXPECT_THROW(min_sum({.domain = {0}, .factors = {}}), Error);
  EXPECT_THROW(min_sum({.domain = {2}, .factors = {factor({0}, {1, std::nan("")})}}), Error);
  EXPECT_THROW(min_sum({.domain = {2}, .factors = {factor({0}, {1, -inf})}}), Error);
  EXPECT_THROW(min_sum({.domain = {2}, .factors = {{{0}, nullptr}}}), Error);
  auto with_classes = [](std::vector<std::vector<int>> classes, std::vector<double> cost) {
    return MinSumProblem{
        .domain = {3},
        .factors = {{{0}, std::make_shared<CostCells>(CostCells{std::move(cost), std::move(classes), {}})}}};
  };
  EXPECT_EQ(min_sum(with_classes({{0, 1, 1}}, {2, 1})).cost, 1);
  EXPECT_THROW(min_sum(with_classes({{0, 1}}, {2, 1})), Error);        // classes of two states only
  EXPECT_THROW(min_sum(with_classes({{0, 2, 2}}, {3, 2, 1})), Error);  // no state has class 1
  EXPECT_THROW(min_sum(with_classes({{0, 3, 1}}, {2, 1})), Error);
  EXPECT_THROW(min_sum(with_classes({{0, -1, 1}}, {2, 1})), Error);
  EXPECT_THROW(min_sum(with_classes({{0, 1, 1}, {}}, {2, 1})), Error);
  EXPECT_THROW(min_sum({}, {.table_cells = 0}), Error);
  EXPECT_THROW(min_sum({}, {.passes = -1}), Error);
}

std::vector<double> random_cells(std::mt19937& random, std::size_t count) {
  std::vector<double> cells(count);
  for (double& c : cells) c = static_cast<double>(random() % 1000000) / 1000;
  return cells;
}

TEST(MinSum, TheSolutionEqualsDynamicProgrammingOnAChain) {
  std::mt19937 random(1);
  constexpr int n = 300, d = 36;
  MinSumProblem p{.domain = std::vector<int>(n, d), .factors = {}};
  for (int v = 0; v + 1 < n; ++v) p.factors.push_back(factor({v, v + 1}, random_cells(random, d * d)));
  std::vector<double> min_costs(d, 0.0);
  for (int v = 0; v + 1 < n; ++v) {
    std::vector<double> next(d, inf);
    for (int a = 0; a < d; ++a)
      for (int b = 0; b < d; ++b) next[b] = std::min(next[b], min_costs[a] + p.factors[v].cells->cost[a * d + b]);
    min_costs = next;
  }
  expect_optimum(p, min_sum(p), *std::min_element(min_costs.begin(), min_costs.end()), 1e-9);
}

// A forward chain 0..n-1, a backward chain 2n-1..n and rungs between them, as in a training step. With `ternary`, each
// value's factor has the producer, the next node and the backward node that reads the value.
MinSumProblem ladder(std::mt19937& random, int n, int d, bool ternary) {
  MinSumProblem p{.domain = std::vector<int>(2 * n, d), .factors = {}};
  auto forward = [](int i) { return i; };
  auto backward = [&](int i) { return 2 * n - 1 - i; };
  std::size_t square = static_cast<std::size_t>(d) * d;
  for (int i = 0; i < n; ++i) {
    p.factors.push_back(factor({forward(i)}, random_cells(random, d)));
    if (i + 1 < n && ternary)
      p.factors.push_back(factor({forward(i), forward(i + 1), backward(i)}, random_cells(random, square * d)));
    if (i + 1 < n && !ternary) p.factors.push_back(factor({forward(i), forward(i + 1)}, random_cells(random, square)));
    if (!ternary || i + 1 == n) p.factors.push_back(factor({forward(i), backward(i)}, random_cells(random, square)));
    if (i > 0) p.factors.push_back(factor({backward(i), backward(i - 1)}, random_cells(random, square)));
  }
  return p;
}

// Dynamic programming over the rungs; the state is (forward, backward) of one rung.
double ladder_optimum(const MinSumProblem& p, int n, int d, bool ternary) {
  std::vector<double> min_costs(static_cast<std::size_t>(d) * d, 0.0);
  std::size_t f = 0;
  std::vector<double> link;  // from rung i to i + 1
  for (int i = 0; i < n; ++i) {
    const auto& own_costs = p.factors[f++].cells->cost;
    const std::vector<double>* next_link = i + 1 < n ? &p.factors[f++].cells->cost : nullptr;
    const std::vector<double>* rung_costs = !ternary || i + 1 == n ? &p.factors[f++].cells->cost : nullptr;
    if (i > 0) {  // the factor of backward(i) and backward(i - 1) needs both rungs
      const auto& back_costs = p.factors[f++].cells->cost;
      const auto previous = min_costs;
      min_costs.assign(min_costs.size(), inf);
      for (int a = 0; a < d; ++a)
        for (int b = 0; b < d; ++b)
          for (int a2 = 0; a2 < d; ++a2) {
            double base = previous[a * d + b] + (ternary ? link[(a * d + a2) * d + b] : link[a * d + a2]);
            for (int b2 = 0; b2 < d; ++b2)
              min_costs[a2 * d + b2] = std::min(min_costs[a2 * d + b2], base + back_costs[b2 * d + b]);
          }
    }
    for (int a = 0; a < d; ++a)
      for (int b = 0; b < d; ++b) min_costs[a * d + b] += own_costs[a] + (rung_costs ? (*rung_costs)[a * d + b] : 0);
    if (next_link) link = *next_link;
  }
  return *std::min_element(min_costs.begin(), min_costs.end());
}

TEST(MinSum, TheSolutionEqualsDynamicProgrammingOnALadder) {
  for (bool ternary : {false, true}) {
    std::mt19937 random(2);
    MinSumProblem p = ladder(random, 150, 12, ternary);
    expect_optimum(p, min_sum(p), ladder_optimum(p, 150, 12, ternary), 1e-9);
  }
}

TEST(MinSum, ALadderOfManyStatesIsSolved) {
  std::mt19937 random(3);
  MinSumProblem p = ladder(random, 150, 36, true);
  MinSumResult r = min_sum(p);
  EXPECT_TRUE(r.optimal) << r.method;
  EXPECT_EQ(sum_of(p, r.choice), r.cost);
  EXPECT_EQ(min_sum(p).choice, r.choice);
}

}  // namespace
}  // namespace karez::solve
