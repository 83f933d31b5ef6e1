// Tests of the dual bound: reweighting keeps the costs of choices, the bound never exceeds the optimum and is exact on
// chains, and all possible states are kept.
#include "karez/solve/dual_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

#include "karez/base/text.h"

namespace karez::solve {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();

void for_each_choice(const std::vector<int>& domain, const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> choice(domain.size(), 0);
  while (true) {
    visit(choice);
    std::size_t v = 0;
    while (v < choice.size() && ++choice[v] == domain[v]) choice[v++] = 0;
    if (v == choice.size()) return;
  }
}

MinSumProblem random_problem(std::mt19937& random, bool forbidding) {
  MinSumProblem p{.domain = std::vector<int>(6), .factors = {}};
  for (int& d : p.domain) d = 2 + static_cast<int>(random() % 3);
  for (int f = 0; f < 9; ++f) {
    Factor factor;
    auto cells = std::make_shared<CostCells>();
    std::size_t count = 1;
    for (int a = 1 + static_cast<int>(random() % 3); a > 0; --a) {
      factor.scope.push_back(static_cast<int>(random() % 6));
      const int states = p.domain[factor.scope.back()];
      auto& classes = cells->classes.emplace_back();
      if (random() % 2 == 0)
        for (int s = 0; s < states; ++s) classes.push_back(s < 2 ? s : static_cast<int>(random() % 2));
      count *= classes.empty() ? states : 2;
    }
    for (; count > 0; --count)
      cells->cost.push_back(forbidding && random() % 5 == 0 ? inf : static_cast<double>(random() % 1000) / 100 - 3);
    factor.cells = std::move(cells);
    p.factors.push_back(std::move(factor));
  }
  return p;
}

// Returns the cost that a table gives to a choice.
double cell_of(const CostGraph& graph, const Table& table, std::span<const int> choice) {
  const CostArray& cost_array = graph.cost_arrays[static_cast<std::size_t>(table.cost_array)];
  std::size_t position = 0;
  for (std::size_t a = 0; a < table.scope.size(); ++a) {
    const int state = choice[static_cast<std::size_t>(table.scope[a])];
    position = position * static_cast<std::size_t>(cost_array.sizes[a]) +
               static_cast<std::size_t>(graph.partitions[table.partitions[a]].of[static_cast<std::size_t>(state)]);
  }
  if (cost_array.implied_class.empty()) return cost_array.cells()[position];
  const auto last = static_cast<std::size_t>(cost_array.sizes.back());
  return cost_array.implied_class[position / last] == static_cast<int>(position % last) ? 0 : inf;
}

// Returns the cost of a choice of the remaining variables, computed from the reweighted tables and variables, with the
// cheapest states of the eliminated variables.
double reweighted_cost(const Elimination& plan, const Reweighting& r, const std::vector<int>& choice) {
  double sum = r.bound;
  for (int v : plan.remaining) sum += r.node[v][choice[v]];
  for (std::size_t t = 0; t < plan.graph.tables.size(); ++t) {
    const Table& table = plan.graph.tables[t];
    if (!plan.alive[t] || table.scope.size() < 2) continue;
    sum += cell_of(plan.graph, table, choice);
    for (std::size_t a = 0; a < table.scope.size(); ++a)
      sum += r.message[t][a][plan.graph.partitions[table.partitions[a]].of[choice[table.scope[a]]]];
  }
  return sum;
}

TEST(DualBound, PassesKeepTheCostsOfChoicesAndAllPossibleStates) {
  int excluded = 0, feasible = 0;
  for (int seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    MinSumProblem problem = random_problem(random, seed % 2 == 1);
    double best = inf;
    std::vector<std::vector<double>> min_cost_of_state;  // per variable and state
    for (int states : problem.domain) min_cost_of_state.emplace_back(states, inf);
    for_each_choice(problem.domain, [&](const std::vector<int>& choice) {
      double cost = cost_of(problem, choice);
      best = std::min(best, cost);
      for (std::size_t v = 0; v < choice.size(); ++v)
        min_cost_of_state[v][choice[v]] = std::min(min_cost_of_state[v][choice[v]], cost);
    });
    // This eliminates no variable, some variables or all variables.
    Elimination plan = plan_elimination(cost_graph(problem), EliminationRule::smallest, 20,
                                        std::vector<double>{-1, 8, 40}[random() % 3]);
    fill(plan);
    Reweighting r = reweighting(plan);
    double last_bound = -inf;
    for (int i = 0; i < 8 && r.bound < inf; ++i) {
      run_pass(plan, r, i % 2 == 1);
      ASSERT_GE(r.bound, last_bound - 1e-9);
      last_bound = r.bound;
    }
    ASSERT_EQ(r.bound, r.bound) << "the bound is not a number";
    if (best == inf) continue;
    ++feasible;
    ASSERT_LE(r.bound, best + 1e-9);
    ASSERT_NEAR(recomputed_bound(plan, r), r.bound, 1e-9);
    for_each_choice(problem.domain, [&](std::vector<int> choice) {
      double cost = cost_of(problem, choice);
      if (cost == inf) return;
      decode_choice(plan, choice);  // chooses the eliminated variables
      ASSERT_NEAR(reweighted_cost(plan, r, choice), cost_of(problem, choice), 1e-9);
      ASSERT_LE(cost_of(problem, choice), cost + 1e-9);
    });
    const double excess = static_cast<double>(random() % 300) / 100;
    const StateMasks kept = states_within(plan, r, excess);
    for (std::size_t v = 0; v < kept.size(); ++v)
      for (std::size_t s = 0; s < kept[v].size(); ++s)
        if (!kept[v][s]) {
          ASSERT_GT(min_cost_of_state[v][s], r.bound + excess - 1e-9)
              << "state " << s << " of variable " << v << " must be kept";
          ++excluded;
        }
  }
  EXPECT_GT(excluded, 4700);  // of the 4,834 states that this bound excludes after its passes
  EXPECT_GT(feasible, 400);
}

TEST(DualBound, OnAChainTheBoundIsExactAfterOnePassAndRoundingGivesTheOptimum) {
  std::mt19937 random(1);
  MinSumProblem problem{.domain = {3, 4, 2, 5, 3}, .factors = {}};
  for (int v = 0; v + 1 < 5; ++v) {
    std::vector<double> cost;
    for (int c = problem.domain[v] * problem.domain[v + 1]; c > 0; --c)
      cost.push_back(static_cast<double>(random() % 1000));
    problem.factors.push_back(factor({v, v + 1}, cost));
  }
  double best = inf;
  for_each_choice(problem.domain,
                  [&](const std::vector<int>& choice) { best = std::min(best, cost_of(problem, choice)); });
  const Elimination plan =
      plan_elimination(cost_graph(problem), EliminationRule::smallest, 0, -1);  // nothing is eliminated
  ASSERT_EQ(plan.remaining.size(), 5);
  Reweighting r = reweighting(plan);
  run_pass(plan, r, false);
  EXPECT_NEAR(r.bound, best, 1e-9);
  EXPECT_NEAR(cost_of(problem, round_choice(plan, r, true)), best, 1e-9);
  // The mask of the variable visited last is exact; the masks of the others include the states of all good choices.
  // Integer costs are represented exactly.
  for (double excess : {0.0, 100.0, 500.0}) {
    const StateMasks kept = states_within(plan, r, excess);
    std::vector<double> min_cost_of_first(3, inf);
    for_each_choice(problem.domain, [&](const std::vector<int>& choice) {
      const double cost = cost_of(problem, choice);
      min_cost_of_first[choice[0]] = std::min(min_cost_of_first[choice[0]], cost);
      for (std::size_t v = 0; cost <= best + excess && v < choice.size(); ++v)
        ASSERT_TRUE(kept[v][choice[v]]) << "variable " << v << ", excess " << excess;
    });
    for (std::size_t s = 0; s < 3; ++s)
      EXPECT_EQ(kept[0][s] != 0, min_cost_of_first[s] <= best + excess) << "state " << s << ", excess " << excess;
  }
  Elimination all_eliminated = plan_elimination(cost_graph(problem), EliminationRule::smallest, 1000, 1000);
  ASSERT_TRUE(all_eliminated.remaining.empty());
  fill(all_eliminated);
  const StateMasks kept = states_within(all_eliminated, reweighting(all_eliminated), 0);
  for_each_choice(problem.domain, [&](const std::vector<int>& choice) {
    for (std::size_t v = 0; cost_of(problem, choice) == best && v < choice.size(); ++v)
      EXPECT_TRUE(kept[v][choice[v]]) << v;
  });
}

// Rounds in ascending order after a descending pass and vice versa, on random chains.
TEST(DualBound, RoundingGivesTheOptimumOfEveryChain) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    MinSumProblem problem{.domain = std::vector<int>(6), .factors = {}};
    for (int& d : problem.domain) d = 1 + static_cast<int>(random() % 4);
    for (int v = 0; v + 1 < 6; ++v) {
      std::vector<double> cost;
      for (int c = problem.domain[v] * problem.domain[v + 1]; c > 0; --c)
        cost.push_back(static_cast<double>(random() % 1000));
      problem.factors.push_back(factor({v, v + 1}, cost));
    }
    double best = inf;
    for_each_choice(problem.domain,
                    [&](const std::vector<int>& choice) { best = std::min(best, cost_of(problem, choice)); });
    const Elimination plan = plan_elimination(cost_graph(problem), EliminationRule::smallest, 0, -1);
    for (bool ascending : {false, true}) {
      Reweighting r = reweighting(plan);
      run_pass(plan, r, ascending);
      EXPECT_NEAR(r.bound, best, 1e-9) << "seed " << seed;
      EXPECT_NEAR(cost_of(problem, round_choice(plan, r, !ascending)), best, 1e-9) << "seed " << seed;
    }
  }
}

// The eliminated variable is linked with three others that have more joint states than states_within enumerates.
TEST(DualBound, AllStatesAreKeptIfAllArePossible) {
  std::mt19937 random(1);
  std::vector<double> cost;
  for (int c = 0; c < 20 * 20 * 20 * 20; ++c) cost.push_back(static_cast<double>(random() % 1000));
  const MinSumProblem problem{.domain = {20, 20, 20, 20}, .factors = {factor({0, 1, 2, 3}, cost)}};
  Elimination plan = plan_elimination(cost_graph(problem), EliminationRule::smallest, 8000, 0);
  fill(plan);
  ASSERT_EQ(plan.remaining.size(), 3u);
  Reweighting r = reweighting(plan);
  run_pass(plan, r, false);
  for (const auto& states : states_within(plan, r, 1e6))
    EXPECT_EQ(std::count(states.begin(), states.end(), 1), static_cast<long>(states.size()));
}

TEST(DualBound, TheBoundIsInfiniteIfEveryChoiceIsForbidden) {
  for (unsigned seed = 0; seed < 200; ++seed) {  // one table allows only the last states, the others only the first
    std::mt19937 random(seed);
    MinSumProblem problem{.domain = {2, 2, 2, 2, 2}, .factors = {}};
    const int forbidden_edge = static_cast<int>(random() % 4);
    for (int v = 0; v < 4; ++v)
      problem.factors.push_back(
          factor({v, v + 1}, {v == forbidden_edge ? inf : 1, inf, inf, v == forbidden_edge ? 2.0 : inf}));
    problem.factors.push_back(factor({static_cast<int>(random() % 5)}, {0, inf}));
    const Elimination plan = plan_elimination(cost_graph(problem), EliminationRule::smallest, 0, -1);
    for (bool ascending : {false, true}) {
      Reweighting r = reweighting(plan);
      for (int i = 0; i < 4; ++i) run_pass(plan, r, ascending != (i % 2 == 1));
      EXPECT_EQ(r.bound, inf) << "seed " << seed;
    }
  }
  for (bool ascending : {false, true}) {
    MinSumProblem problem{.domain = {2, 2, 2, 2}, .factors = {factor({1}, {0, inf}), factor({1, 2}, {inf, inf, 0, 0})}};
    for (int v = 0; v < 3; ++v) problem.factors.push_back(factor({v, v + 1}, {1, 2, 3, 4}));
    const Elimination plan = plan_elimination(cost_graph(problem), EliminationRule::smallest, 0, -1);
    Reweighting r = reweighting(plan);
    run_pass(plan, r, ascending);
    EXPECT_EQ(r.bound, inf);
  }
}

}  // namespace
}  // namespace karez::solve
