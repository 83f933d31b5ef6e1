// Tests of eliminations: the sharing of step results, the choice of the smaller plan, and the counts of cells.
#include "karez/solve/elimination.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "karez/base/test_golden.h"
#include "karez/solve/cost_graph.h"
#include "karez/solve/reduced_search.h"

namespace karez::solve {
namespace {

std::vector<double> random_cells(std::mt19937& random, int count) {
  std::vector<double> cells;
  for (; count > 0; --count) cells.push_back(static_cast<double>(random() % 1000));
  return cells;
}

TEST(StatePartitions, ClassesAreNumberedInTheOrderOfTheirFirstStates) {
  StatePartitions partitions;
  const int two_classes = partitions.number({2, 0, 2});
  EXPECT_EQ(partitions[two_classes].of, (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(partitions[two_classes].first, (std::vector<int>{0, 1}));
  EXPECT_EQ(partitions.number({1, 2, 1}), two_classes) << "class names do not matter";
  const int other_partition = partitions.number({0, 0, 1});
  EXPECT_NE(other_partition, two_classes);
  const int finest = partitions.number({0, 1, 2});
  EXPECT_EQ(partitions.common_refinement(two_classes, other_partition), finest);
  EXPECT_EQ(partitions.common_refinement(two_classes, finest), finest);
}

// Variables 2 and 3 have the same tables, but variable 2 shares them with (0, 1) and variable 3 with (1, 0), so that
// the results are transposes of each other.
TEST(Elimination, ATransposedResultIsNotShared) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const auto a = factor({2, 0}, random_cells(random, 12)), b = factor({2, 1}, random_cells(random, 12));
    const MinSumProblem problem{.domain = {3, 3, 4, 4}, .factors = {a, b, {{3, 1}, a.cells}, {{3, 0}, b.cells}}};
    double best = 1e9;
    std::vector<int> choice(4);
    for (choice[0] = 0; choice[0] < 3; ++choice[0])
      for (choice[1] = 0; choice[1] < 3; ++choice[1])
        for (choice[2] = 0; choice[2] < 4; ++choice[2])
          for (choice[3] = 0; choice[3] < 4; ++choice[3]) best = std::min(best, cost_of(problem, choice));
    Elimination plan = plan_elimination(cost_graph(problem), EliminationRule::smallest, 1e6, 1e6);
    fill(plan);
    ASSERT_EQ(constant_of(plan), best) << "seed " << seed;
  }
}

// A cycle of tables with random chords. Variables have different numbers of states, so that the two rules give
// different plans.
MinSumProblem random_wheel(std::mt19937& random, int rim) {
  MinSumProblem problem;
  for (int v = 0; v < rim; ++v) problem.domain.push_back(2 + static_cast<int>(random() % 5));
  for (int v = 0; v < rim; ++v) {
    const int next = (v + 1) % rim, opposite = static_cast<int>(random() % static_cast<unsigned>(rim));
    problem.factors.push_back(factor({v, next}, random_cells(random, problem.domain[v] * problem.domain[next])));
    if (opposite != v)
      problem.factors.push_back(
          factor({v, opposite}, random_cells(random, problem.domain[v] * problem.domain[opposite])));
  }
  return problem;
}

TEST(Elimination, APlanCountsStoredAndVisitedCellsAndStopsAtTheLimit) {
  int stopped = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const MinSumProblem problem = random_wheel(random, 6);
    for (EliminationRule rule : {EliminationRule::smallest, EliminationRule::min_fill})
      for (double max_stored : {50.0, 1e6}) {
        const Elimination plan = plan_elimination(cost_graph(problem), rule, 1e6, max_stored);
        double stored = 0, work = 0, result_cells = 0;
        for (const EliminationStep& step : plan.steps) {
          result_cells = 1;
          for (int w : plan.graph.tables[static_cast<std::size_t>(step.out)].scope)
            result_cells *= problem.domain[static_cast<std::size_t>(w)];
          stored += result_cells, work += result_cells * problem.domain[static_cast<std::size_t>(step.variable)];
        }
        ASSERT_EQ(plan.stored, stored) << "seed " << seed;  // tables share no cells and distinguish all states
        ASSERT_EQ(plan.work, work) << "seed " << seed;
        ASSERT_LE(stored - result_cells, max_stored);
        stopped += !plan.remaining.empty();
      }
  }
  EXPECT_GT(stopped, 50);
}

// A result of 16 cells replaces two tables of 8 cells.
TEST(Elimination, AVariableIsEliminatedIfItsResultIsNotLargerThanTheReplacedTables) {
  std::mt19937 random(1);
  const MinSumProblem problem{
      .domain = {2, 4, 4},
      .factors = {factor({0, 1}, random_cells(random, 8)), factor({0, 2}, random_cells(random, 8))}};
  EXPECT_TRUE(plan_elimination(cost_graph(problem), EliminationRule::smallest, 0, 1e9).remaining.empty());
  EXPECT_EQ(plan_elimination(cost_graph(problem), EliminationRule::smallest, -1, 15).steps.size(), 3u)
      << "no result has more cells than the tables that it replaces";
}

// Variables 0 and 1 imply variable 3. A result of 540 cells replaces tables with 210 stored cells, 1,920 when expanded.
TEST(Elimination, ImpliedClassesAreExpandedUpToSixTimesTheCellLimit) {
  std::mt19937 random(1);
  auto implied = std::make_shared<CostCells>();
  implied->classes = {{}, {}, {}};
  for (int c = 0; c < 90; ++c) implied->implied_class.push_back(c % 20);
  const MinSumProblem problem{.domain = {10, 9, 6, 20},
                              .factors = {{{0, 1, 3}, implied},
                                          factor({2, 3}, random_cells(random, 120)),
                                          factor({0, 2}, random_cells(random, 60)),
                                          factor({1, 2}, random_cells(random, 54))}};
  const auto eliminated_variable = [&](double max_cells) {
    const Elimination plan = plan_elimination(cost_graph(problem), EliminationRule::smallest, max_cells, 1e6);
    return plan.steps.empty() ? -1 : plan.steps[0].variable;
  };
  EXPECT_EQ(eliminated_variable(90), 3);
  EXPECT_EQ(eliminated_variable(89), -1);
}

// The results are four tables of two cells and one table of one cell.
TEST(Elimination, AllTablesTogetherHaveAtMostFourTimesTheCellLimitOfOneTable) {
  std::mt19937 random(1);
  MinSumProblem problem{.domain = std::vector<int>(5, 2), .factors = {}};
  for (int v = 0; v < 4; ++v) problem.factors.push_back(factor({v, v + 1}, random_cells(random, 4)));
  EXPECT_FALSE(plan_exact(cost_graph(problem), 2));
  EXPECT_TRUE(plan_exact(cost_graph(problem), 3));
}

TEST(Elimination, LargeImpliedClassesAreNotExpanded) {
  for (int states : {64, 65}) {  // 2^18 cells, and more than 2^18
    auto cells = std::make_shared<CostCells>(
        CostCells{{}, {{}, {}, {}}, std::vector<int>(static_cast<std::size_t>(states) * states, 0)});
    const MinSumProblem problem{.domain = std::vector<int>(3, states), .factors = {{{0, 1, 2}, cells}}};
    EXPECT_EQ(plan_elimination(cost_graph(problem), EliminationRule::smallest, 1e9, 1e9).remaining.size(),
              states == 64 ? 0u : 3u);
  }
}

// Equal groups of tables, given in different orders, share their results.
TEST(Elimination, EqualResultsAreComputedOnce) {
  std::mt19937 random(1);
  const auto unary = factor({0}, random_cells(random, 4)), binary = factor({0, 1}, random_cells(random, 8));
  MinSumProblem problem{.domain = {4, 2, 4, 2, 4, 2}, .factors = {}};
  for (int v = 0; v < 6; v += 2) {
    const Factor unary_factor{{v}, unary.cells}, link_factor{{v, v + 1}, binary.cells};
    problem.factors.push_back(v == 2 ? link_factor : unary_factor),
        problem.factors.push_back(v == 2 ? unary_factor : link_factor);
  }
  EXPECT_EQ(plan_elimination(cost_graph(problem), EliminationRule::smallest, 1e9, 1e9).stored, 2 + 1);
}

TEST(Elimination, VisitedCellsDoNotExceedThePinnedNumbers) {
  double smallest = 0, links = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    const CostGraph graph = cost_graph(random_wheel(random, 12));
    smallest += plan_elimination(graph, EliminationRule::smallest, 1e9, 1e9).work,
        links += plan_elimination(graph, EliminationRule::min_fill, 1e9, 1e9).work;
  }
  EXPECT_TRUE(pinned_at_most(smallest, 299'748));
  EXPECT_TRUE(pinned_at_most(links, 285'738));
}

TEST(Elimination, TheRuleThatVisitsFewerCellsIsChosen) {
  int different = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const CostGraph graph = cost_graph(random_wheel(random, 9));
    const Elimination smallest = plan_elimination(graph, EliminationRule::smallest, 1e9, 1e9),
                      links = plan_elimination(graph, EliminationRule::min_fill, 1e9, 1e9);
    const auto chosen = plan_exact(graph, 1e9);
    ASSERT_TRUE(chosen);
    if (links.stored > smallest.stored) {  // a plan that stores more is not considered
      ASSERT_EQ(chosen->work, smallest.work) << "seed " << seed;
      continue;
    }
    ASSERT_EQ(chosen->work, std::min(smallest.work, links.work)) << "seed " << seed;
    different += smallest.work != links.work;
  }
  EXPECT_GT(different, 20);
}

}  // namespace
}  // namespace karez::solve
