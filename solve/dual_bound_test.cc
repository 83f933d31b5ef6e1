// The dual bound moves costs without changing a sum, never passes the optimum, is exact on chains and marks only what is dear.
#include "solve/dual_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

#include "base/text.h"

namespace karez::solve {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();

void for_each_choice(const CostGraph& graph, const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> choice(graph.states.size(), 0);
  while (true) {
    visit(choice);
    std::size_t v = 0;
    while (v < choice.size() && ++choice[v] == graph.size(static_cast<int>(v))) choice[v++] = 0;
    if (v == choice.size()) return;
  }
}

MinSumProblem random_problem(std::mt19937& random, bool forbidding) {
  MinSumProblem p{.domain = std::vector<int>(6), .factors = {}};
  for (int& d : p.domain) d = 2 + static_cast<int>(random() % 3);
  for (int f = 0; f < 9; ++f) {
    Factor factor;
    std::size_t cells = 1;
    for (int a = 1 + static_cast<int>(random() % 3); a > 0; --a) {
      factor.scope.push_back(static_cast<int>(random() % 6));
      cells *= p.domain[factor.scope.back()];
    }
    for (std::size_t c = 0; c < cells; ++c)
      factor.cost.push_back(forbidding && random() % 5 == 0 ? inf : static_cast<double>(random() % 1000) / 100 - 3);
    p.factors.push_back(factor);
  }
  return p;
}

TEST(DualBound, MovesCostsAndMarksOnlyWhatIsDear) {
  int marked = 0;
  for (int seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    std::mt19937 random(seed);
    MinSumProblem problem = random_problem(random, seed % 2 == 1);
    CostGraph graph = cost_graph(problem);
    Marks dead = no_marks(graph);
    if (!propagate(graph, dead)) continue;
    drop(graph, dead);
    double best = inf;
    std::vector<std::vector<double>> best_with;  // per variable and state
    for (const auto& states : graph.states) best_with.emplace_back(states.size(), inf);
    for_each_choice(graph, [&](const std::vector<int>& choice) {
      double cost = cost_of(graph, choice);
      best = std::min(best, cost);
      for (std::size_t v = 0; v < choice.size(); ++v) best_with[v][choice[v]] = std::min(best_with[v][choice[v]], cost);
    });
    Reweighting r = reweighting(graph);
    dead = no_marks(graph);
    double ceiling = best + static_cast<double>(random() % 3), before = -inf;
    for (int i = 0; i < 8; ++i) {
      pass(graph, r, i % 2 == 1, ceiling, dead);
      ASSERT_GE(r.bound, before - 1e-9);
      ASSERT_LE(r.bound, best + 1e-9);
      before = r.bound;
    }
    CostGraph moved = reweighted(graph, r);
    ASSERT_NEAR(least_sum(moved), r.bound, 1e-9);
    for_each_choice(graph, [&](const std::vector<int>& choice) {
      double cost = cost_of(graph, choice);
      if (cost < inf) { ASSERT_NEAR(cost_of(moved, choice), cost, 1e-9); }
    });
    for (std::size_t v = 0; v < dead.size(); ++v)
      for (std::size_t s = 0; s < dead[v].size(); ++s)
        if (dead[v][s]) {
          ASSERT_GT(best_with[v][s], ceiling - 1e-9);
          ++marked;
        }
  }
  EXPECT_GT(marked, 1000);
}

TEST(DualBound, IsExactOnAChainAfterOnePassAndRoundsToItsOptimum) {
  std::mt19937 random(1);
  MinSumProblem problem{.domain = {3, 4, 2, 5, 3}, .factors = {}};
  for (int v = 0; v + 1 < 5; ++v) {
    Factor factor{.scope = {v, v + 1}, .cost = {}};
    for (int c = problem.domain[v] * problem.domain[v + 1]; c > 0; --c) factor.cost.push_back(static_cast<double>(random() % 1000));
    problem.factors.push_back(factor);
  }
  CostGraph graph = cost_graph(problem);
  double best = inf;
  for_each_choice(graph, [&](const std::vector<int>& choice) { best = std::min(best, cost_of(graph, choice)); });
  Reweighting r = reweighting(graph);
  Marks dead = no_marks(graph);
  pass(graph, r, false, inf, dead);
  EXPECT_NEAR(r.bound, best, 1e-9);
  EXPECT_NEAR(cost_of(graph, round_choice(graph, r, true)), best, 1e-9);
}

}  // namespace
}  // namespace karez::solve
