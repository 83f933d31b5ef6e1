// The passes of the lower bound, and the search of reduced problems.
#include "karez/solve/reduced_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace karez::solve {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double max_groups_to_ceiling =
    60;  // passes continue while at most this number of further groups of passes would reach the ceiling
constexpr double min_rise = 3e-4;  // passes also continue while a group raises the bound by at least this share, even
                                   // far below the ceiling, because the ceiling may fall
constexpr int pass_group = 4;      // passes per group
constexpr double negligible_rise = 1e-6;  // passes end after a group that raises the bound by at most this share
constexpr double max_stored_factor =
    256;  // maximum cells of all tables that the elimination of cheap variables makes, as a multiple of cheap_cells
constexpr double small_work = 1e6;        // cells visited; visiting this number is faster than making a second plan
constexpr double first_share = 1.0 / 64;  // excess of the first reduced problem, as a share of the gap
}  // namespace

LowerBound::LowerBound(const MinSumProblem& problem, const PassLimits& passes)
    : limits_(passes),
      plan_(plan_elimination(cost_graph(problem), EliminationRule::smallest, static_cast<double>(passes.cheap_cells),
                             max_stored_factor * static_cast<double>(passes.cheap_cells))),
      slack_(1e-12 * magnitude(plan_.graph)) {
  fill(plan_);
  reweighting_ = reweighting(plan_);
  raise(passes.target);
}

void LowerBound::resume() { raise(inf); }

void LowerBound::raise(double target) {
  const int min_passes = std::max(limits_.count, 1), max_passes = limits_.ceiling < inf ? 4 * min_passes : min_passes;
  paused_ = false;
  for (; passes_made_ < max_passes && reweighting_.bound < inf && !paused_; ++passes_made_) {
    if (passes_made_ % pass_group == 0 && passes_made_ > 0) {
      const double rise = reweighting_.bound - last_bound_;
      if (rise <= negligible_rise * std::abs(reweighting_.bound)) break;
      if (passes_made_ >= min_passes && rise * max_groups_to_ceiling < limits_.ceiling - reweighting_.bound &&
          rise < min_rise * std::abs(reweighting_.bound))
        break;
      last_bound_ = reweighting_.bound;
    }
    run_pass(plan_, reweighting_, passes_made_ % 2 == 1);
    paused_ = reweighting_.bound >= target && reweighting_.bound < inf;
  }
  bound_ = reweighting_.bound < inf ? recomputed_bound(plan_, reweighting_) - slack_ : inf;
  if (bound_ < inf) rounded_choice_ = round_choice(plan_, reweighting_, passes_made_ % 2 == 1);
}

std::optional<MinSumResult> solve_by_elimination(const MinSumProblem& problem, std::size_t table_cells) {
  CostGraph graph = cost_graph(problem);
  auto plan = plan_exact(graph, static_cast<double>(table_cells), small_work);
  if (!plan) return std::nullopt;
  fill(*plan);
  MinSumResult result{.feasible = constant_of(*plan) < inf,
                      .choice = {},
                      .cost = inf,
                      .lower_bound = inf,
                      .optimal = true,
                      .method = "elimination"};
  if (!result.feasible) return result;
  result.choice.assign(problem.domain.size(), 0);
  decode_choice(*plan, result.choice);
  result.cost = result.lower_bound = cost_of(problem, result.choice);
  return result;
}

ReducedSearchResult search_reduced(const LowerBound& lower_bound, const ReducedSolver& solve_reduced,
                                   std::vector<int>& choice, double& cost) {
  ReducedSearchResult result{.bound = lower_bound.bound()};
  StateMasks last_kept;
  for (double excess = first_share * (cost - lower_bound.bound());; excess *= 2) {
    const double gap = cost - lower_bound.bound();
    const bool is_last = excess >= gap;
    StateMasks kept = lower_bound.candidate_states(std::min(excess, gap) + 2 * lower_bound.rounding());
    for (std::size_t v = 0; v < choice.size(); ++v) kept[v][static_cast<std::size_t>(choice[v])] = 1;
    bool best = true;
    if (kept != last_kept) {
      auto solution = solve_reduced(kept);
      if (!solution) return result;
      best = solution->best;
      if (solution->cost < cost) cost = solution->cost, choice = std::move(solution->choice), result.better = true;
      last_kept = std::move(kept);
    }
    if (!best) return result;
    result.bound = std::max(result.bound, std::min(cost, lower_bound.bound() + excess));
    if (is_last) {
      result.optimal = true;
      return result;
    }
  }
}

}  // namespace karez::solve
