// Minimises by exact elimination if tables stay small; otherwise computes a lower bound and searches among the states
// that the bound leaves possible.
#include "karez/solve/min_sum.h"

#include <algorithm>
#include <limits>

#include "karez/base/error.h"
#include "karez/solve/reduced_search.h"

namespace karez::solve {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr std::size_t cheap_cells = 16'000;

// Restricts the problem to the kept states. Classes keep their order.
MinSumProblem restricted(const MinSumProblem& problem, const StateMasks& kept) {
  MinSumProblem reduced;
  for (const auto& states : kept)
    reduced.domain.push_back(static_cast<int>(std::count(states.begin(), states.end(), 1)));
  for (const Factor& factor : problem.factors) {
    auto cells = std::make_shared<CostCells>();
    std::vector<int> sizes;
    AxisOffsets step;
    const CostCells& all = *factor.cells;
    for (std::size_t a = 0; a < factor.scope.size(); ++a) {
      const int v = factor.scope[a];
      const auto& class_of = all.classes[a];
      sizes.push_back(class_of.empty() ? problem.domain[v] : 1 + *std::max_element(class_of.begin(), class_of.end()));
    }
    const auto stride = strides_of(sizes);
    std::size_t count = 1;
    for (std::size_t a = 0; a < factor.scope.size(); ++a) {
      const int v = factor.scope[a];
      const auto& class_of = all.classes[a];
      std::vector<int> number(static_cast<std::size_t>(sizes[a]), -1);
      auto& classes = cells->classes.emplace_back();
      step.emplace_back();
      for (int s = 0; s < problem.domain[v]; ++s) {
        if (!kept[v][s]) continue;
        const int old = class_of.empty() ? s : class_of[s];
        if (number[old] < 0) {
          number[old] = static_cast<int>(step.back().size());
          step.back().push_back(stride[a] * static_cast<std::size_t>(old));
        }
        classes.push_back(number[old]);
      }
      count *= step.back().size();
    }
    cells->cost.assign(count, 0.0);
    add_gathered(cells->cost, all.implied_class.empty() ? all.cost : dense_cells({sizes, {}, {}, all.implied_class}),
                 step);
    reduced.factors.push_back({factor.scope, std::move(cells)});
  }
  return reduced;
}

std::vector<int> with_all_states(const std::vector<int>& choice, const StateMasks& kept) {
  std::vector<int> out;
  for (std::size_t v = 0; v < kept.size(); ++v) {
    int kept_before = choice[v], s = 0;
    while (!kept[v][s] || kept_before-- > 0) ++s;
    out.push_back(s);
  }
  return out;
}
}  // namespace

MinSumResult min_sum(const MinSumProblem& problem, const MinSumLimits& limits) {
  require(limits.table_cells > 0 && limits.passes >= 0, "min_sum: expected table_cells >= 1 and passes >= 0, got ",
          limits.table_cells, " and ", limits.passes);
  if (auto exact = solve_by_elimination(problem, limits.table_cells)) return std::move(*exact);
  const LowerBound bound(problem, {.count = limits.passes, .cheap_cells = std::min(limits.table_cells, cheap_cells)});
  if (bound.bound() == inf)
    return {.feasible = false,
            .choice = {},
            .cost = inf,
            .lower_bound = inf,
            .optimal = true,
            .method = "the bound proves that every choice is forbidden"};
  std::vector<int> choice = bound.rounded_choice();
  double cost = cost_of(problem, choice);
  if (cost == inf)
    return {.feasible = false,
            .choice = {},
            .cost = inf,
            .lower_bound = bound.bound(),
            .optimal = false,
            .method = "no choice found"};
  const auto search = search_reduced(
      bound,
      [&](const StateMasks& kept) -> std::optional<ReducedSolution> {
        auto best = solve_by_elimination(restricted(problem, kept), limits.table_cells);
        if (!best) return std::nullopt;
        auto full_choice = with_all_states(best->choice, kept);
        const double full_cost = cost_of(problem, full_choice);
        return ReducedSolution{std::move(full_choice), full_cost, true};
      },
      choice, cost);
  return {.feasible = true,
          .choice = std::move(choice),
          .cost = cost,
          .lower_bound = search.optimal ? cost : std::min(cost, search.bound),
          .optimal = search.optimal || cost - search.bound <= 2 * bound.rounding(),
          .method = "bound and reduced problems"};
}

}  // namespace karez::solve
