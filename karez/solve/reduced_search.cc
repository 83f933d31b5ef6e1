// The lower bound with its passes, and the search of reduced problems.
#include "karez/solve/reduced_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace karez::solve {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double patience = 60;  // groups of passes continue while the ceiling is within reach of this many
constexpr double worth =
    3e-4;  // or while a group raises the bound by this share, even far below the ceiling, since that may fall
constexpr int pass_group = 4;  // passes per group
constexpr double idle = 1e-6;  // passes end with a group that raises the bound by at most this share
constexpr double all_to_one =
    256;  // most cells of all tables that the elimination of cheap variables makes, as a multiple of cheap_cells
constexpr double little_work = 1e6;       // cells visited: faster than making another plan
constexpr double first_share = 1.0 / 64;  // excess of the first reduced problem, as a share of the gap
}  // namespace

LowerBound::LowerBound(const MinSumProblem& problem, const PassLimits& passes)
    : passes_(passes),
      plan_(plan_elimination(cost_graph(problem), EliminationRule::smallest, static_cast<double>(passes.cheap_cells),
                             all_to_one * static_cast<double>(passes.cheap_cells))),
      slack_(1e-12 * magnitude(plan_.graph)) {
  fill(plan_);
  r_ = reweighting(plan_);
  raise(passes.target);
}

void LowerBound::resume() { raise(inf); }

void LowerBound::raise(double target) {
  const int least = std::max(passes_.count, 1), most = passes_.ceiling < inf ? 4 * least : least;
  paused_ = false;
  for (; made_ < most && r_.bound < inf && !paused_; ++made_) {
    if (made_ % pass_group == 0 && made_ > 0) {
      const double rise = r_.bound - before_;
      if (rise <= idle * std::abs(r_.bound)) break;
      if (made_ >= least && rise * patience < passes_.ceiling - r_.bound && rise < worth * std::abs(r_.bound)) break;
      before_ = r_.bound;
    }
    run_pass(plan_, r_, made_ % 2 == 1);
    paused_ = r_.bound >= target && r_.bound < inf;
  }
  bound_ = r_.bound < inf ? recomputed_bound(plan_, r_) - slack_ : inf;
  if (bound_ < inf) rounded_choice_ = round_choice(plan_, r_, made_ % 2 == 1);
}

std::optional<MinSumResult> solve_by_elimination(const MinSumProblem& problem, std::size_t table_cells) {
  CostGraph graph = cost_graph(problem);
  auto plan = plan_exact(graph, static_cast<double>(table_cells), little_work);
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

ReducedSearchResult search_reduced(const LowerBound& least, const ReducedSolver& solve_reduced,
                                   std::vector<int>& choice, double& cost) {
  ReducedSearchResult result{.bound = least.bound()};
  StateMasks last;
  for (double excess = first_share * (cost - least.bound());; excess *= 2) {
    const double gap = cost - least.bound();
    const bool all = excess >= gap;
    StateMasks keep = least.candidate_states(std::min(excess, gap) + 2 * least.rounding());
    for (std::size_t v = 0; v < choice.size(); ++v) keep[v][static_cast<std::size_t>(choice[v])] = 1;
    bool best = true;
    if (keep != last) {
      auto found = solve_reduced(keep);
      if (!found) return result;
      best = found->best;
      if (found->cost < cost) cost = found->cost, choice = std::move(found->choice), result.better = true;
      last = std::move(keep);
    }
    if (!best) return result;
    result.bound = std::max(result.bound, std::min(cost, least.bound() + excess));
    if (all) {
      result.optimal = true;
      return result;
    }
  }
}

}  // namespace karez::solve
