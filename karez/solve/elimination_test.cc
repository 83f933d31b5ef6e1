// Tests of eliminations: shared results of steps, the choice of the smaller plan, and counted cells.
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
  const int two = partitions.number({2, 0, 2});
  EXPECT_EQ(partitions[two].of, (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(partitions[two].first, (std::vector<int>{0, 1}));
  EXPECT_EQ(partitions.number({1, 2, 1}), two) << "class names do not matter";
  const int other = partitions.number({0, 0, 1});
  EXPECT_NE(other, two);
  EXPECT_EQ(partitions.common_refinement(two, other), partitions.finest(3));
  EXPECT_EQ(partitions.common_refinement(two, partitions.finest(3)), partitions.finest(3));
}

TEST(StatePartitions, TheFinestHasAClassForEachState) {
  for (int states = 1; states <= 40; ++states) {
    StatePartitions partitions;
    const StatePartition& finest = partitions[partitions.finest(states)];
    std::vector<int> each;
    for (int s = 0; s < states; ++s) each.push_back(s);
    EXPECT_EQ(finest.of, each);
    EXPECT_EQ(finest.first, each);
  }
}

// Variables 2 and 3 have the same tables, but one with (0, 1) and the other with (1, 0): the results are transposes.
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

// A cycle of tables with random chords; variables differ in states, so that the rules differ.
MinSumProblem wheel(std::mt19937& random, int rim) {
  MinSumProblem problem;
  for (int v = 0; v < rim; ++v) problem.domain.push_back(2 + static_cast<int>(random() % 5));
  for (int v = 0; v < rim; ++v) {
    const int next = (v + 1) % rim, across = static_cast<int>(random() % static_cast<unsigned>(rim));
    problem.factors.push_back(factor({v, next}, random_cells(random, problem.domain[v] * problem.domain[next])));
    if (across != v)
      problem.factors.push_back(factor({v, across}, random_cells(random, problem.domain[v] * problem.domain[across])));
  }
  return problem;
}

TEST(Elimination, CountsStoredAndVisitedCellsAndStopsAtTheLimit) {
  int stopped = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const MinSumProblem problem = wheel(random, 6);
    for (EliminationRule next : {EliminationRule::smallest, EliminationRule::min_fill})
      for (double most : {50.0, 1e6}) {
        const Elimination plan = plan_elimination(cost_graph(problem), next, 1e6, most);
        double stored = 0, work = 0, last = 0;
        for (const EliminationStep& step : plan.steps) {
          last = 1;
          for (int w : plan.graph.tables[static_cast<std::size_t>(step.out)].scope)
            last *= problem.domain[static_cast<std::size_t>(w)];
          stored += last, work += last * problem.domain[static_cast<std::size_t>(step.variable)];
        }
        ASSERT_EQ(plan.stored, stored) << "seed " << seed;  // tables share no cells and distinguish all states
        ASSERT_EQ(plan.work, work) << "seed " << seed;
        ASSERT_LE(stored - last, most);
        stopped += !plan.remaining.empty();
      }
  }
  EXPECT_GT(stopped, 50);
}

TEST(Elimination, AVariableWhoseResultIsNoLargerIsEliminated) {  // 16 cells replace twice 8
  std::mt19937 random(1);
  const MinSumProblem problem{
      .domain = {2, 4, 4},
      .factors = {factor({0, 1}, random_cells(random, 8)), factor({0, 2}, random_cells(random, 8))}};
  EXPECT_TRUE(plan_elimination(cost_graph(problem), EliminationRule::smallest, 0, 1e9).remaining.empty());
  EXPECT_EQ(plan_elimination(cost_graph(problem), EliminationRule::smallest, -1, 15).steps.size(), 3u)
      << "no result has more cells than the tables that it replaces";
}

// Variables 0 and 1 imply variable 3. A result of 540 cells replaces tables with 210 stored cells, 1,920 when expanded.
TEST(Elimination, ImpliedClassesAreExpandedUpToSixTimesTheCheapSize) {
  std::mt19937 random(1);
  auto follows = std::make_shared<CostCells>();
  follows->classes = {{}, {}, {}};
  for (int c = 0; c < 90; ++c) follows->implied_class.push_back(c % 20);
  const MinSumProblem problem{.domain = {10, 9, 6, 20},
                              .factors = {{{0, 1, 3}, follows},
                                          factor({2, 3}, random_cells(random, 120)),
                                          factor({0, 2}, random_cells(random, 60)),
                                          factor({1, 2}, random_cells(random, 54))}};
  const auto gone = [&](double cheap) {
    const Elimination plan = plan_elimination(cost_graph(problem), EliminationRule::smallest, cheap, 1e6);
    return plan.steps.empty() ? -1 : plan.steps[0].variable;
  };
  EXPECT_EQ(gone(90), 3);
  EXPECT_EQ(gone(89), -1);
}

// The results are four tables of two cells and one of one cell.
TEST(Elimination, AllTablesTogetherAreAtMostFourTimesOne) {
  std::mt19937 random(1);
  MinSumProblem problem{.domain = std::vector<int>(5, 2), .factors = {}};
  for (int v = 0; v < 4; ++v) problem.factors.push_back(factor({v, v + 1}, random_cells(random, 4)));
  EXPECT_FALSE(plan_exact(cost_graph(problem), 2));
  EXPECT_TRUE(plan_exact(cost_graph(problem), 3));
}

TEST(Elimination, LargeImpliedClassesAreNotExpanded) {
  for (int states : {64, 65}) {  // 2^18 cells, and more
    auto cells = std::make_shared<CostCells>(
        CostCells{{}, {{}, {}, {}}, std::vector<int>(static_cast<std::size_t>(states) * states, 0)});
    const MinSumProblem problem{.domain = std::vector<int>(3, states), .factors = {{{0, 1, 2}, cells}}};
    EXPECT_EQ(plan_elimination(cost_graph(problem), EliminationRule::smallest, 1e9, 1e9).remaining.size(),
              states == 64 ? 0u : 3u);
  }
}

// Equal groups of tables, given in different orders: their results are shared.
TEST(Elimination, EqualResultsAreComputedOnce) {
  std::mt19937 random(1);
  const auto one = factor({0}, random_cells(random, 4)), link = factor({0, 1}, random_cells(random, 8));
  MinSumProblem problem{.domain = {4, 2, 4, 2, 4, 2}, .factors = {}};
  for (int v = 0; v < 6; v += 2) {
    const Factor mine{{v}, one.cells}, to{{v, v + 1}, link.cells};
    problem.factors.push_back(v == 2 ? to : mine), problem.factors.push_back(v == 2 ? mine : to);
  }
  EXPECT_EQ(plan_elimination(cost_graph(problem), EliminationRule::smallest, 1e9, 1e9).stored, 2 + 1);
}

TEST(Elimination, VisitedCellsDoNotExceedThePinnedNumbers) {
  double smallest = 0, links = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    const CostGraph graph = cost_graph(wheel(random, 12));
    smallest += plan_elimination(graph, EliminationRule::smallest, 1e9, 1e9).work,
        links += plan_elimination(graph, EliminationRule::min_fill, 1e9, 1e9).work;
  }
  EXPECT_TRUE(pinned_at_most(smallest, 299'748));
  EXPECT_TRUE(pinned_at_most(links, 285'738));
}

TEST(Elimination, TheRuleThatVisitsFewerCellsIsTaken) {
  int differ = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const CostGraph graph = cost_graph(wheel(random, 9));
    const Elimination smallest = plan_elimination(graph, EliminationRule::smallest, 1e9, 1e9),
                      links = plan_elimination(graph, EliminationRule::min_fill, 1e9, 1e9);
    const auto taken = plan_exact(graph, 1e9);
    ASSERT_TRUE(taken);
    if (links.stored > smallest.stored) {  // a plan that stores more is not considered
      ASSERT_EQ(taken->work, smallest.work) << "seed " << seed;
      continue;
    }
    ASSERT_EQ(taken->work, std::min(smallest.work, links.work)) << "seed " << seed;
    differ += smallest.work != links.work;
  }
  EXPECT_GT(differ, 20);
}

}  // namespace
}  // namespace karez::solve
