// Builds factors and adds up the costs of one choice.
#include "karez/solve/min_sum_problem.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

namespace karez::solve {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();
}

Factor factor(std::vector<int> scope, std::vector<double> cost) {
  auto cells = std::make_shared<CostCells>();
  cells->cost = std::move(cost);
  cells->classes.resize(scope.size());
  return {std::move(scope), std::move(cells)};
}

double cost_of(const MinSumProblem& problem, const std::vector<int>& choice) {
  double cost = 0;
  for (const Factor& factor : problem.factors) {
    std::size_t cell = 0;
    for (std::size_t a = 0; a < factor.scope.size(); ++a) {
      const auto v = static_cast<std::size_t>(factor.scope[a]), s = static_cast<std::size_t>(choice[v]);
      const auto& class_of = factor.cells->classes[a];
      const int size = class_of.empty() ? problem.domain[v] : 1 + *std::max_element(class_of.begin(), class_of.end());
      cell = cell * static_cast<std::size_t>(size) +
             static_cast<std::size_t>(class_of.empty() ? static_cast<int>(s) : class_of[s]);
    }
    const auto& implied_class = factor.cells->implied_class;
    if (implied_class.empty()) {
      cost += factor.cells->cost[cell];
      continue;
    }
    const auto& class_of = factor.cells->classes.back();
    const auto last =
        static_cast<std::size_t>(class_of.empty() ? problem.domain[factor.scope.back()]
                                                  : 1 + *std::max_element(class_of.begin(), class_of.end()));
    if (implied_class[cell / last] != static_cast<int>(cell % last)) return inf;
  }
  return cost;
}

}  // namespace karez::solve
