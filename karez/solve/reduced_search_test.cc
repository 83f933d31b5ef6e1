// Tests of reduced problems: bounds and proofs are valid even if the exact searches stop early.
#include "karez/solve/reduced_search.h"
#include "karez/solve/min_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "karez/base/test_golden.h"
#include "karez/base/text.h"

namespace karez::solve {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();

// The best choice of the kept states, found by enumeration.
ReducedSolution best_of_states(const MinSumProblem& p, const StateMasks& kept_states) {
  std::vector<int> choice(p.domain.size(), 0);
  ReducedSolution solution{{}, inf, true};
  while (true) {
    bool is_kept = true;
    for (std::size_t v = 0; v < choice.size(); ++v)
      is_kept = is_kept && kept_states[v][static_cast<std::size_t>(choice[v])];
    if (const double cost = is_kept ? cost_of(p, choice) : inf; cost < solution.cost)
      solution.choice = choice, solution.cost = cost;
    std::size_t v = 0;
    while (v < choice.size() && ++choice[v] == p.domain[v]) choice[v++] = 0;
    if (v == choice.size()) return solution;
  }
}

TEST(ReducedSearch, BoundsAndProofsAreValidWhereverTheSearchStops) {
  int proven = 0, open = 0, raised = 0;
  for (int seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    MinSumProblem p{.domain = std::vector<int>(6, 3), .factors = {}};
    for (int v = 0; v < 6; ++v)  // cycles of three tables, for which the bound without a search is loose
      for (int w = v + 1; w < 6; ++w) {
        std::vector<double> cost;
        for (int c = 0; c < 9; ++c) cost.push_back(1000 + static_cast<double>(random() % 1000));
        p.factors.push_back(factor({v, w}, cost));
      }
    const double best = best_of_states(p, StateMasks(6, std::vector<char>(3, 1))).cost;
    const LowerBound dual_bound(p, {static_cast<int>(random() % 3), 0});
    ASSERT_LE(dual_bound.bound(), best + 1e-9);
    std::vector<int> choice = seed % 4 == 0 ? std::vector<int>(6, 0) : dual_bound.rounded_choice();
    double cost = cost_of(p, choice);
    int calls = static_cast<int>(random() % 9);
    const ReducedSearchResult result = search_reduced(
        dual_bound,
        [&](const StateMasks& kept_states) -> std::optional<ReducedSolution> {
          return calls-- > 0 ? std::optional(best_of_states(p, kept_states)) : std::nullopt;
        },
        choice, cost);
    ASSERT_EQ(cost_of(p, choice), cost);
    ASSERT_GE(cost, best);
    ASSERT_LE(result.bound, best + 1e-9);
    ASSERT_GE(result.bound, dual_bound.bound());
    if (result.optimal) { ASSERT_EQ(cost, best); }
    proven += result.optimal;
    open += !result.optimal;
    raised += !result.optimal && result.bound > dual_bound.bound() + 1e-9;
  }
  EXPECT_GT(proven, 30);
  EXPECT_GT(open, 100);
  EXPECT_GT(raised, 50);
}

// Random tables over all pairs, which form cycles.
MinSumProblem random_cycles(std::mt19937& random, int variables) {
  MinSumProblem p{.domain = std::vector<int>(static_cast<std::size_t>(variables), 3), .factors = {}};
  for (int v = 0; v < variables; ++v)
    for (int w = v + 1; w < variables; ++w) {
      std::vector<double> cost;
      for (int c = 0; c < 9; ++c) cost.push_back(static_cast<double>(random() % 1000));
      p.factors.push_back(factor({v, w}, cost));
    }
  return p;
}

// On a chain the bound is exact except for rounding, and rounding must not raise it above the cost of a choice.
TEST(ReducedSearch, RoundingDoesNotRaiseTheBoundAboveTheOptimum) {
  for (int seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const double sign = seed % 2 == 0 ? 1 : -1;
    MinSumProblem p{.domain = std::vector<int>(6, 3), .factors = {}};
    for (int v = 0; v + 1 < 6; ++v) {
      std::vector<double> cost;
      for (int c = 0; c < 9; ++c) cost.push_back(sign * static_cast<double>(random()) / 3e9);
      p.factors.push_back(factor({v, v + 1}, cost));
    }
    const double best = best_of_states(p, StateMasks(6, std::vector<char>(3, 1))).cost;
    const LowerBound dual_bound(p, {2, 0});
    ASSERT_LE(dual_bound.bound(), best) << "seed " << seed;
    ASSERT_GE(dual_bound.bound(), best - 1e-10) << "seed " << seed;
  }
}

TEST(ReducedSearch, PassesContinueWhileTheyRaiseTheBound) {
  int sixty_higher = 0, ceiling_higher = 0;
  for (int seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    const MinSumProblem p = random_cycles(random, 7);
    const double one_pass = LowerBound(p, {1, 0}).bound(), six_passes = LowerBound(p, {6, 0}).bound(),
                 sixty_passes = LowerBound(p, {60, 0}).bound();
    const double with_ceiling = LowerBound(p, {6, 0, sixty_passes}).bound();
    ASSERT_LE(one_pass, six_passes + 1e-9);
    ASSERT_LE(six_passes, with_ceiling + 1e-9) << "a ceiling does not reduce the number of passes";
    sixty_higher += sixty_passes > six_passes + 1e-6;
    ceiling_higher += with_ceiling > six_passes + 1e-6;
  }
  EXPECT_GT(sixty_higher, 90);
  EXPECT_GT(ceiling_higher, 90);
}

TEST(ReducedSearch, APausedBoundEndsWithTheSameResultAsAnUnpausedOne) {
  for (int seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    const MinSumProblem p = random_cycles(random, 7);
    const double one_pass = LowerBound(p, {1, 0}).bound(), ceiling = LowerBound(p, {60, 0}).bound() + 1;
    const LowerBound unpaused(p, {9, 0, ceiling}), unreached_target(p, {9, 0, ceiling, unpaused.bound() + 1});
    LowerBound dual_bound(p, {9, 0, ceiling, one_pass + 1});
    ASSERT_FALSE(unpaused.is_paused());
    ASSERT_FALSE(unreached_target.is_paused());
    ASSERT_EQ(unreached_target.bound(), unpaused.bound());
    ASSERT_TRUE(dual_bound.is_paused());
    ASSERT_GE(dual_bound.bound(), one_pass + 1 - 1e-6);
    ASSERT_LE(dual_bound.bound(), unpaused.bound());
    dual_bound.resume();
    ASSERT_FALSE(dual_bound.is_paused());
    ASSERT_EQ(dual_bound.bound(), unpaused.bound());
    ASSERT_EQ(dual_bound.rounded_choice(), unpaused.rounded_choice());
  }
}

// The pinned numbers are sums of bounds, costs, passes, reduced problems and states.
TEST(ReducedSearch, BoundsAndWorkMeetThePinnedNumbers) {
  double first_bounds = 0, eight_passes_bounds = 0, twelve_passes_bounds = 0, rounded_costs = 0;
  int passes = 0, calls = 0;
  long states = 0;
  for (int seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const MinSumProblem p = random_cycles(random, 7);
    first_bounds += LowerBound(p, {1, 0}).bound();
    const LowerBound far_ceiling(p, {8, 0, 1e6}), dual_bound(p, {12, 0, 1e5});
    eight_passes_bounds += far_ceiling.bound(), twelve_passes_bounds += dual_bound.bound(),
        passes += far_ceiling.passes() + dual_bound.passes();
    std::vector<int> choice = dual_bound.rounded_choice();
    double cost = cost_of(p, choice);
    rounded_costs += cost;
    search_reduced(
        dual_bound,
        [&](const StateMasks& kept_states) -> std::optional<ReducedSolution> {
          ++calls;
          for (const auto& is_kept : kept_states) states += std::count(is_kept.begin(), is_kept.end(), 1);
          return best_of_states(p, kept_states);
        },
        choice, cost);
  }
  EXPECT_TRUE(pinned_at_least(first_bounds, 304'961.07));
  EXPECT_TRUE(pinned_at_least(eight_passes_bounds, 364'225.70));
  EXPECT_TRUE(pinned_at_least(twelve_passes_bounds, 364'977.08));
  EXPECT_TRUE(pinned_at_most(rounded_costs, 423'059));
  EXPECT_TRUE(pinned_at_most(passes, 4136));
  EXPECT_TRUE(pinned_at_most(calls, 201));
  EXPECT_TRUE(pinned_at_most(states, 3475));
}

// Each of three tables can cost 0, but not all of them together. The minimum is a large constant plus a small cost, and
// the bound without a search does not prove that a choice is optimal.
TEST(ReducedSearch, ASmallCostIsNotMistakenForRounding) {
  for (double small_cost : {1e-7, 5e-8}) {
    MinSumProblem p{.domain = {2, 2, 2, 1}, .factors = {factor({3}, {1000})}};
    for (auto [v, w] : {std::pair(0, 1), {1, 2}, {0, 2}})
      p.factors.push_back(factor({v, w}, {small_cost, 0, 0, small_cost}));
    const MinSumResult r = min_sum(p, {.table_cells = 1});
    EXPECT_EQ(r.cost, 1000 + small_cost);
    EXPECT_FALSE(r.optimal && r.lower_bound < r.cost - 1e-8) << r.lower_bound;
  }
}

// A solver that does not return the best choice does not prove a bound. The states of the current choice are always
// kept.
TEST(ReducedSearch, AnIncompleteSolverDoesNotProveABound) {
  int better = 0;
  for (int seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    const MinSumProblem p = random_cycles(random, 5);
    const LowerBound dual_bound(p, {1, 0});
    std::vector<int> choice(5, 0);
    double cost = cost_of(p, choice);
    const double old_cost = cost;
    const ReducedSearchResult result = search_reduced(
        dual_bound,
        [&](const StateMasks& kept_states) -> std::optional<ReducedSolution> {
          ReducedSolution random_solution{std::vector<int>(5), 0, false};
          for (std::size_t v = 0; v < 5; ++v) {
            EXPECT_TRUE(kept_states[v][static_cast<std::size_t>(choice[v])]) << "the current choice's states are kept";
            while (
                !kept_states[v][static_cast<std::size_t>(random_solution.choice[v] = static_cast<int>(random() % 3))])
              continue;
          }
          random_solution.cost = cost_of(p, random_solution.choice);
          return random_solution;
        },
        choice, cost);
    ASSERT_FALSE(result.optimal);
    ASSERT_EQ(result.bound, dual_bound.bound());
    ASSERT_EQ(cost, cost_of(p, choice));
    ASSERT_EQ(result.better, cost < old_cost);
    better += result.better;
  }
  EXPECT_GT(better, 50);
}

// The problem is a grid, for which the bound rises slowly.
TEST(ReducedSearch, AFarCeilingDoesNotEndPassesThatRaiseTheBoundByMuch) {
  constexpr int side = 12;
  std::mt19937 random(7);
  MinSumProblem p{.domain = std::vector<int>(side * side, 3), .factors = {}};
  auto add_factor = [&](int v, int w) {
    std::vector<double> cost;
    for (int c = 0; c < 9; ++c) cost.push_back(static_cast<double>(random() % 1000));
    p.factors.push_back(factor({v, w}, cost));
  };
  for (int v = 0; v < side * side; ++v) {
    if (v % side != side - 1) add_factor(v, v + 1);
    if (v < side * (side - 1)) add_factor(v, v + side);
  }
  const LowerBound without_ceiling(p, {4, 0}), far_ceiling(p, {4, 0, 1e9});
  EXPECT_GT(far_ceiling.bound(), without_ceiling.bound() * 1.01);
  EXPECT_LE(far_ceiling.bound(), cost_of(p, far_ceiling.rounded_choice()));
}

}  // namespace
}  // namespace karez::solve
