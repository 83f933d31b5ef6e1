// Exact elimination if tables stay small; otherwise a lower bound and a search among the states that it leaves
// possible.
#include "karez/solve/min_sum.h"

#include <algorithm>
#include <limits>

#include "karez/base/error.h"
#include "karez/solve/reduced_search.h"

namespace karez::solve {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr std::size_t cheap_cells = 16'000;

// The problem restricted to the kept states; classes keep their order.
MinSumProblem restricted(const MinSumProblem& problem, const StateMasks& keep) {
  MinSumProblem made;
  for (const auto& states : keep) made.domain.push_back(static_cast<int>(std::count(states.begin(), states.end(), 1)));
  for (const Factor& factor : problem.factors) {
    auto cells = std::make_shared<CostCells>();
    std::vector<int> sizes;
    AxisOffsets step;
    const CostCells& all = *factor.cells;
    for (std::size_t a = 0; a < factor.scope.size(); ++a) {
      const int v = factor.scope[a];
      const auto& of = all.classes[a];
      sizes.push_back(of.empty() ? problem.domain[v] : 1 + *std::max_element(of.begin(), of.end()));
    }
    const auto stride = strides_of(sizes);
    std::size_t count = 1;
    for (std::size_t a = 0; a < factor.scope.size(); ++a) {
      const int v = factor.scope[a];
      const auto& of = all.classes[a];
      std::vector<int> number(static_cast<std::size_t>(sizes[a]), -1);
      auto& classes = cells->classes.emplace_back();
      step.emplace_back();
      for (int s = 0; s < problem.domain[v]; ++s) {
        if (!keep[v][s]) continue;
        const int old = of.empty() ? s : of[s];
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
    made.factors.push_back({factor.scope, std::move(cells)});
  }
  return made;
}

std::vector<int> with_all_states(const std::vector<int>& choice, const StateMasks& keep) {
  std::vector<int> out;
  for (std::size_t v = 0; v < keep.size(); ++v) {
    int left = choice[v], s = 0;
    while (!keep[v][s] || left-- > 0) ++s;
    out.push_back(s);
  }
  return out;
}
}  // namespace

MinSumResult min_sum(const MinSumProblem& problem, const MinSumLimits& limits) {
  require(limits.table_cells > 0 && limits.passes >= 0, "min_sum: limits must be positive: ", limits.table_cells,
          " cells, ", limits.passes, " passes");
  if (auto exact = solve_by_elimination(problem, limits.table_cells)) return std::move(*exact);
  const LowerBound least(problem, {.count = limits.passes, .cheap_cells = std::min(limits.table_cells, cheap_cells)});
  if (least.bound() == inf)
    return {.feasible = false,
            .choice = {},
            .cost = inf,
            .lower_bound = inf,
            .optimal = true,
            .method = "the bound proves that every choice is forbidden"};
  std::vector<int> choice = least.rounded_choice();
  double cost = cost_of(problem, choice);
  if (cost == inf)
    return {.feasible = false,
            .choice = {},
            .cost = inf,
            .lower_bound = least.bound(),
            .optimal = false,
            .method = "no choice found"};
  const auto core = search_reduced(
      least,
      [&](const StateMasks& keep) -> std::optional<ReducedSolution> {
        auto best = solve_by_elimination(restricted(problem, keep), limits.table_cells);
        if (!best) return std::nullopt;
        auto all = with_all_states(best->choice, keep);
        const double all_cost = cost_of(problem, all);
        return ReducedSolution{std::move(all), all_cost, true};
      },
      choice, cost);
  return {.feasible = true,
          .choice = std::move(choice),
          .cost = cost,
          .lower_bound = core.optimal ? cost : std::min(cost, core.bound),
          .optimal = core.optimal || cost - core.bound <= 2 * least.rounding(),
          .method = "bound and reduced problems"};
}

}  // namespace karez::solve
