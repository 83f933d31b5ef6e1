// Tests of reduced problems: valid bounds and proofs, also if the exact searches stop early.
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

// The best choice of the kept states, by enumeration.
ReducedSolution best_among(const MinSumProblem& p, const StateMasks& keep) {
  std::vector<int> choice(p.domain.size(), 0);
  ReducedSolution found{{}, inf, true};
  while (true) {
    bool kept = true;
    for (std::size_t v = 0; v < choice.size(); ++v) kept = kept && keep[v][static_cast<std::size_t>(choice[v])];
    if (const double cost = kept ? cost_of(p, choice) : inf; cost < found.cost)
      found.choice = choice, found.cost = cost;
    std::size_t v = 0;
    while (v < choice.size() && ++choice[v] == p.domain[v]) choice[v++] = 0;
    if (v == choice.size()) return found;
  }
}

TEST(ReducedSearch, BoundsAndProofsAreValidWhereverItStops) {
  int proven = 0, open = 0, raised = 0;
  for (int seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    MinSumProblem p{.domain = std::vector<int>(6, 3), .factors = {}};
    for (int v = 0; v < 6; ++v)  // cycles of three tables, for which the bound alone is loose
      for (int w = v + 1; w < 6; ++w) {
        std::vector<double> cost;
        for (int c = 0; c < 9; ++c) cost.push_back(1000 + static_cast<double>(random() % 1000));
        p.factors.push_back(factor({v, w}, cost));
      }
    const double best = best_among(p, StateMasks(6, std::vector<char>(3, 1))).cost;
    const LowerBound least(p, {static_cast<int>(random() % 3), 0});
    ASSERT_LE(least.bound(), best + 1e-9);
    std::vector<int> choice = seed % 4 == 0 ? std::vector<int>(6, 0) : least.rounded_choice();
    double cost = cost_of(p, choice);
    int calls = static_cast<int>(random() % 9);
    const ReducedSearchResult result = search_reduced(
        least,
        [&](const StateMasks& keep) -> std::optional<ReducedSolution> {
          return calls-- > 0 ? std::optional(best_among(p, keep)) : std::nullopt;
        },
        choice, cost);
    ASSERT_EQ(cost_of(p, choice), cost);
    ASSERT_GE(cost, best);
    ASSERT_LE(result.bound, best + 1e-9);
    ASSERT_GE(result.bound, least.bound());
    if (result.optimal) { ASSERT_EQ(cost, best); }
    proven += result.optimal;
    open += !result.optimal;
    raised += !result.optimal && result.bound > least.bound() + 1e-9;
  }
  EXPECT_GT(proven, 30);
  EXPECT_GT(open, 100);
  EXPECT_GT(raised, 50);
}

// Random tables over all pairs, which form cycles.
MinSumProblem circles(std::mt19937& random, int variables) {
  MinSumProblem p{.domain = std::vector<int>(static_cast<std::size_t>(variables), 3), .factors = {}};
  for (int v = 0; v < variables; ++v)
    for (int w = v + 1; w < variables; ++w) {
      std::vector<double> cost;
      for (int c = 0; c < 9; ++c) cost.push_back(static_cast<double>(random() % 1000));
      p.factors.push_back(factor({v, w}, cost));
    }
  return p;
}

// On a chain the bound is exact except for rounding, and rounding does not lift it above a choice.
TEST(ReducedSearch, RoundingDoesNotLiftTheBound) {
  for (int seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const double sign = seed % 2 == 0 ? 1 : -1;
    MinSumProblem p{.domain = std::vector<int>(6, 3), .factors = {}};
    for (int v = 0; v + 1 < 6; ++v) {
      std::vector<double> cost;
      for (int c = 0; c < 9; ++c) cost.push_back(sign * static_cast<double>(random()) / 3e9);
      p.factors.push_back(factor({v, v + 1}, cost));
    }
    const double best = best_among(p, StateMasks(6, std::vector<char>(3, 1))).cost;
    const LowerBound least(p, {2, 0});
    ASSERT_LE(least.bound(), best) << "seed " << seed;
    ASSERT_GE(least.bound(), best - 1e-10) << "seed " << seed;
  }
}

TEST(ReducedSearch, PassesContinueWhileTheyHelp) {
  int more = 0, beyond = 0;
  for (int seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    const MinSumProblem p = circles(random, 7);
    const double one = LowerBound(p, {1, 0}).bound(), six = LowerBound(p, {6, 0}).bound(),
                 sixty = LowerBound(p, {60, 0}).bound();
    const double wanted = LowerBound(p, {6, 0, sixty}).bound();
    ASSERT_LE(one, six + 1e-9);
    ASSERT_LE(six, wanted + 1e-9) << "with a ceiling no fewer passes are made";
    more += sixty > six + 1e-6;
    beyond += wanted > six + 1e-6;
  }
  EXPECT_GT(more, 90);
  EXPECT_GT(beyond, 90);
}

TEST(ReducedSearch, APausedBoundResumesAsIfItHadNotPaused) {
  for (int seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    const MinSumProblem p = circles(random, 7);
    const double one = LowerBound(p, {1, 0}).bound(), ceiling = LowerBound(p, {60, 0}).bound() + 1;
    const LowerBound whole(p, {9, 0, ceiling}), never(p, {9, 0, ceiling, whole.bound() + 1});
    LowerBound least(p, {9, 0, ceiling, one + 1});
    ASSERT_FALSE(whole.is_paused());
    ASSERT_FALSE(never.is_paused());
    ASSERT_EQ(never.bound(), whole.bound());
    ASSERT_TRUE(least.is_paused());
    ASSERT_GE(least.bound(), one + 1 - 1e-6);
    ASSERT_LE(least.bound(), whole.bound());
    least.resume();
    ASSERT_FALSE(least.is_paused());
    ASSERT_EQ(least.bound(), whole.bound());
    ASSERT_EQ(least.rounded_choice(), whole.rounded_choice());
  }
}

// Sums of bounds, costs, passes, reduced problems and states.
TEST(ReducedSearch, BoundsAndWorkMeetThePinnedNumbers) {
  double first = 0, few = 0, reached = 0, within = 0;
  int passes = 0, calls = 0;
  long states = 0;
  for (int seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const MinSumProblem p = circles(random, 7);
    first += LowerBound(p, {1, 0}).bound();
    const LowerBound far(p, {8, 0, 1e6}), least(p, {12, 0, 1e5});
    few += far.bound(), reached += least.bound(), passes += far.passes() + least.passes();
    std::vector<int> choice = least.rounded_choice();
    double cost = cost_of(p, choice);
    within += cost;
    search_reduced(
        least,
        [&](const StateMasks& keep) -> std::optional<ReducedSolution> {
          ++calls;
          for (const auto& kept : keep) states += std::count(kept.begin(), kept.end(), 1);
          return best_among(p, keep);
        },
        choice, cost);
  }
  EXPECT_TRUE(pinned_at_least(first, 304'961.07));
  EXPECT_TRUE(pinned_at_least(few, 364'225.70));
  EXPECT_TRUE(pinned_at_least(reached, 364'977.08));
  EXPECT_TRUE(pinned_at_most(within, 423'059));
  EXPECT_TRUE(pinned_at_most(passes, 4136));
  EXPECT_TRUE(pinned_at_most(calls, 201));
  EXPECT_TRUE(pinned_at_most(states, 3475));
}

// Each of three tables can cost 0, but not all of them together: the minimum is a large constant plus a little, and the
// bound alone proves no choice.
TEST(ReducedSearch, ASmallCostIsNotTakenForRounding) {
  for (double little : {1e-7, 5e-8}) {
    MinSumProblem p{.domain = {2, 2, 2, 1}, .factors = {factor({3}, {1000})}};
    for (auto [v, w] : {std::pair(0, 1), {1, 2}, {0, 2}}) p.factors.push_back(factor({v, w}, {little, 0, 0, little}));
    const MinSumResult r = min_sum(p, {.table_cells = 1});
    EXPECT_EQ(r.cost, 1000 + little);
    EXPECT_FALSE(r.optimal && r.lower_bound < r.cost - 1e-8) << r.lower_bound;
  }
}

// A solver that does not return the best choice proves no bound; the current choice's states are always kept.
TEST(ReducedSearch, AnIncompleteSolverProvesNothing) {
  int better = 0;
  for (int seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    const MinSumProblem p = circles(random, 5);
    const LowerBound least(p, {1, 0});
    std::vector<int> choice(5, 0);
    double cost = cost_of(p, choice);
    const double before = cost;
    const ReducedSearchResult result = search_reduced(
        least,
        [&](const StateMasks& keep) -> std::optional<ReducedSolution> {
          ReducedSolution some{std::vector<int>(5), 0, false};
          for (std::size_t v = 0; v < 5; ++v) {
            EXPECT_TRUE(keep[v][static_cast<std::size_t>(choice[v])]) << "the current choice's states are kept";
            while (!keep[v][static_cast<std::size_t>(some.choice[v] = static_cast<int>(random() % 3))]) continue;
          }
          some.cost = cost_of(p, some.choice);
          return some;
        },
        choice, cost);
    ASSERT_FALSE(result.optimal);
    ASSERT_EQ(result.bound, least.bound());
    ASSERT_EQ(cost, cost_of(p, choice));
    ASSERT_EQ(result.better, cost < before);
    better += result.better;
  }
  EXPECT_GT(better, 50);
}

// A grid, for which the bound rises slowly.
TEST(ReducedSearch, AFarCeilingDoesNotEndPassesThatRaiseTheBoundByMuch) {
  constexpr int side = 12;
  std::mt19937 random(7);
  MinSumProblem p{.domain = std::vector<int>(side * side, 3), .factors = {}};
  auto join = [&](int v, int w) {
    std::vector<double> cost;
    for (int c = 0; c < 9; ++c) cost.push_back(static_cast<double>(random() % 1000));
    p.factors.push_back(factor({v, w}, cost));
  };
  for (int v = 0; v < side * side; ++v) {
    if (v % side != side - 1) join(v, v + 1);
    if (v < side * (side - 1)) join(v, v + side);
  }
  const LowerBound few(p, {4, 0}), far(p, {4, 0, 1e9});
  EXPECT_GT(far.bound(), few.bound() * 1.01);
  EXPECT_LE(far.bound(), cost_of(p, far.rounded_choice()));
}

}  // namespace
}  // namespace karez::solve
