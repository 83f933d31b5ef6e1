// Searches for layouts. First it searches one axis at a time: each of these problems has few layouts, so elimination
// solves it exactly, and the result is nearly optimal. The lower bound then shows which layouts could still be part of
// a better assignment, and these few layouts are solved exactly in one problem.
#include "karez/passes/sharding/shard_search.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "karez/passes/sharding/layout_assignment.h"
#include "karez/passes/sharding/shard_sums.h"
#include "karez/passes/sharding/shard_tables.h"
#include "karez/solve/reduced_search.h"

namespace karez::passes {
namespace {

constexpr std::size_t many_states = 10'000;  // with more states, a proof to the last digit is not attempted
constexpr double good_gap = 0.005;           // the gap that is sufficient with many states
constexpr double fewer_of_many = 0.85;  // with many states a round takes seconds, so another round follows only if this
                                        // one leaves at most this share of the states
constexpr double fewer_of_few = 0.95;   // the same share with few states
constexpr std::size_t cheap_cells_beyond_two = 16'000;  // replaces SearchLimits::cheap_cells
constexpr int max_rounds = 8;                           // rounds over all axes in one descent
constexpr int max_searches_again = 2;                   // repeated searches without unsound choices
constexpr double pause_gap = 0.003;  // share of the cost: at this gap the bound pauses, since the remaining layouts may
                                     // be few enough to be solved together

struct SearchEffort {
  int passes, rounds, reduced_problems;
  std::size_t table_cells;   // limit for one table of an exact elimination
  bool repeat_axes = false;  // search single axes again after the reduced problems
};
// The effort for one axis while the layouts on the others are kept. With two axes, reduced problems compensate for few
// passes; with more axes, more passes lead to better choices than reduced problems.
constexpr SearchEffort for_one_of_two = {6, 6, 2, 0}, for_one_of_many = {24, 6, 0, 0};

class LayoutSearch {
 public:
  LayoutSearch(const Graph& graph, const Choices& choices, TransitionCostCache& prices, const SearchLimits& limits)
      : graph_(graph),
        choices_(choices),
        prices_(prices),
        limits_(limits) {
    for (const Mesh& mesh : graph.meshes) axes_ = std::max(axes_, mesh.rank());
  }

  LayoutSearchResult run() {
    SearchState best{ById<NodeId, int>(choices_.size(), 0), 0, 0, false};
    best.cost = assignment_cost(graph_, choices_, best.chosen, prices_);
    ChoiceSubset all_choices(choices_.size());
    for (NodeId n : choices_.ids())
      for (std::size_t c = 0; c < choices_[n].size(); ++c) all_choices[n].push_back(static_cast<int>(c));
    if (axes_ > 1 && limits_.axis_by_axis) {
      const SearchState start = best;
      for (int first_axis = 0; first_axis < axes_; ++first_axis) {
        SearchState axis_state = start;
        descend_axes(axis_state, first_axis, best);
        if (axis_state.cost < best.cost) best = axis_state;
      }
      descended_ = best.cost;
    }
    all_states_ = states_of(all_choices);
    narrow(
        best, std::move(all_choices),
        {limits_.passes, limits_.rounds, limits_.reduced_problems, limits_.table_cells, limits_.reduced_problems > 0});
    return {best.chosen, best.cost, best.bound, best.optimal,
            axes_ > 1 ? "axis by axis, bound and reduced problems" : "bound and reduced problems"};
  }

  // Returns the choices that made an assignment unsound (see shard_sums.h) which would otherwise cost less than `cost`.
  std::vector<std::pair<NodeId, int>> faults(double cost) const {
    std::vector<std::pair<NodeId, int>> out;
    for (const UnsoundChoice& fault : faults_)
      if (fault.cost < cost * (1 - 1e-9)) out.emplace_back(fault.node, fault.choice);
    return out;
  }

  // Numbers of the remaining choices, by node.
  using ChoiceSubset = ById<NodeId, std::vector<int>>;

 private:
  struct UnsoundChoice {
    NodeId node;
    int choice;
    double cost;
  };
  struct SearchState {
    ById<NodeId, int> chosen;
    double cost = INFINITY, bound = 0;
    bool optimal = false;
  };

  static std::size_t states_of(const ChoiceSubset& kept) {
    std::size_t states = 0;
    for (const auto& numbers : kept) states += numbers.size();
    return states;
  }

  // Improves `best` within the kept choices: drops choices that the bound proves to be part of no better assignment,
  // and begins again with the rest.
  void narrow(SearchState& best, ChoiceSubset kept, const SearchEffort& effort) {
    for (int round = 0; round < effort.rounds; ++round) {
      const bool is_full = round == 0 && states_of(kept) == all_states_;
      const Choices subset_choices = is_full ? Choices() : choices_among(kept);
      const Choices& subset = is_full ? choices_ : subset_choices;
      const LayoutProblem problem = layout_problem(graph_, subset, prices_, ChainOverflow::free);
      if (is_full) prices_.clear_tables();  // most sets of layouts are requested only for the full problem
      if (const auto exact = best_of_subset(kept, problem, effort.table_cells, &subset)) {
        const double lower = exact->min_cost;
        accept(best, *exact);
        best.bound = std::max(best.bound, std::min(best.cost, lower));
        best.optimal = best.cost <= best.bound * (1 + 1e-11);
        if (best.optimal) best.bound = best.cost;
        return;
      }
      const double ceiling = effort.reduced_problems > 0 ? best.cost - problem.constant : INFINITY;
      const double rest = std::isfinite(ceiling) ? ceiling - pause_gap * best.cost : INFINITY;
      solve::LowerBound dual_bound(
          problem.sum, {effort.passes, axes_ > 2 ? cheap_cells_beyond_two : limits_.cheap_cells, ceiling, rest});
      if (update_from_bound(best, kept, problem, dual_bound)) return;
      if (dual_bound.is_paused()) {
        if (solve_open(best, kept, problem, dual_bound, effort)) return;
        dual_bound.resume();
        if (update_from_bound(best, kept, problem, dual_bound)) return;
      }
      if (effort.reduced_problems > 0 && improve(best, kept, problem, dual_bound, effort)) return;
      if (effort.repeat_axes) repeat_axes(best);
      if (!std::isfinite(best.cost)) return;  // there is no cost with which to compare other choices
      if (states_of(kept) > many_states && best.cost - best.bound <= good_gap * best.cost) return;
      ChoiceSubset remaining = restricted(
          kept, problem,
          dual_bound.candidate_states(best.cost - dual_bound.bound() - problem.constant + 2 * dual_bound.rounding()),
          best.chosen);
      const std::size_t old_states = states_of(kept);
      kept = std::move(remaining);
      if (static_cast<double>(states_of(kept)) >
          (old_states > many_states ? fewer_of_many : fewer_of_few) * static_cast<double>(old_states))
        return;
    }
  }

  // Updates `best` with the bound and the choice that the bound gives. Returns true if the bound proves that `best` is
  // optimal.
  bool update_from_bound(SearchState& best, const ChoiceSubset& kept, const LayoutProblem& problem,
                         const solve::LowerBound& dual_bound) {
    if (!dual_bound.rounded_choice().empty()) accept(best, solution_of(kept, problem, dual_bound.rounded_choice()));
    best.bound = std::max(best.bound, std::min(best.cost, dual_bound.bound() + problem.constant));
    if (!std::isfinite(best.cost))
      return !std::isfinite(best.bound);  // no choice is known; returns true if none exists
    if (best.cost - best.bound > 2 * dual_bound.rounding()) return false;
    best.optimal = true;
    best.bound = best.cost;
    return true;
  }

  // Solves one problem with all layouts that the bound leaves open, if these are at most half of the kept layouts.
  // Returns true if this proves that `best` is optimal.
  bool solve_open(SearchState& best, const ChoiceSubset& kept, const LayoutProblem& problem,
                  const solve::LowerBound& dual_bound, const SearchEffort& effort) {
    const ChoiceSubset open =
        reduced_problem(best, kept, problem, dual_bound, best.cost - dual_bound.bound() - problem.constant);
    return 2 * states_of(open) <= states_of(kept) && solve_reduced(best, open, best.cost, effort) && best.optimal;
  }

  // Solves reduced problems exactly. The first contains the layouts whose excess over the bound is small, the next
  // those within twice this excess, and so on. Returns true if `best` is proven to be optimal.
  bool improve(SearchState& best, const ChoiceSubset& kept, const LayoutProblem& problem,
               const solve::LowerBound& dual_bound, const SearchEffort& effort) {
    const double lower_bound = dual_bound.bound() + problem.constant;
    double excess = (best.cost - lower_bound) / 1024;
    std::size_t old_states = 0;
    bool solved = false;
    for (int reduced = 0; reduced < effort.reduced_problems; ++reduced, excess *= 2) {
      const bool is_complete = excess >= best.cost - lower_bound;
      const double excess_limit = std::min(excess, best.cost - lower_bound);
      const ChoiceSubset subset = reduced_problem(best, kept, problem, dual_bound, excess_limit);
      if (states_of(subset) == old_states && !is_complete) continue;
      old_states = states_of(subset);
      if (!solve_reduced(best, subset, lower_bound + excess_limit, effort)) {
        if (solved || reduced + 1 == effort.reduced_problems) return false;
        if (reduced == 0) {  // narrow the reduced problem by its own bound
          SearchState axis_state{best.chosen, best.cost, 0, false};
          narrow(axis_state, subset, {16, 4, 0, effort.table_cells});
          if (axis_state.cost < best.cost) best.chosen = axis_state.chosen, best.cost = axis_state.cost;
        }
        excess /= 16;
        continue;
      }
      solved = true;
      if (is_complete || best.optimal) return best.optimal;
    }
    return false;
  }

  ChoiceSubset reduced_problem(const SearchState& best, const ChoiceSubset& kept, const LayoutProblem& problem,
                               const solve::LowerBound& dual_bound, double excess) const {
    return restricted(kept, problem, dual_bound.candidate_states(excess + 2 * dual_bound.rounding()), best.chosen);
  }

  // Finds the cheapest assignment within the subset; every assignment outside of it costs at least `outside_cost`.
  // Returns false if the subset is too large to be solved.
  bool solve_reduced(SearchState& best, const ChoiceSubset& subset, double outside_cost, const SearchEffort& effort) {
    const Choices choices = choices_among(subset);
    const LayoutProblem small = layout_problem(graph_, choices, prices_, ChainOverflow::free);
    const auto exact = best_of_subset(subset, small, effort.table_cells, &choices);
    if (!exact) return false;
    accept(best, *exact);
    best.bound = std::max(best.bound, std::min({best.cost, exact->min_cost, outside_cost}));
    best.optimal = best.cost <= best.bound * (1 + 1e-11);
    return true;
  }

  Choices choices_among(const ChoiceSubset& kept) const {
    Choices subset;
    for (NodeId n : kept.ids()) {
      subset.emplace_back();
      for (int number : kept[n]) subset[n].push_back(choices_[n][static_cast<std::size_t>(number)]);
    }
    return subset;
  }

  // Returns the kept choices that are marked or chosen.
  static ChoiceSubset restricted(const ChoiceSubset& kept, const LayoutProblem& problem, const solve::StateMasks& marks,
                                 const ById<NodeId, int>& chosen) {
    ChoiceSubset remaining(kept.size());
    for (NodeId n : kept.ids())
      for (std::size_t c = 0; c < kept[n].size(); ++c)
        if (marks[static_cast<std::size_t>(problem.variable[n])][c] || kept[n][c] == chosen[n])
          remaining[n].push_back(kept[n][c]);
    return remaining;
  }

  // An assignment, its true cost, and a lower bound for all assignments within the kept choices.
  struct Solution {
    ById<NodeId, int> chosen;
    double cost = INFINITY, min_cost = INFINITY;
  };
  static void accept(SearchState& best, const Solution& candidate) {
    if (!(candidate.cost < best.cost * (1 - 1e-12))) return;
    best.chosen = candidate.chosen;
    best.cost = candidate.cost;
  }

  std::optional<Solution> best_of_subset(const ChoiceSubset& kept, const LayoutProblem& problem,
                                         std::size_t table_cells, const Choices* subset) {
    const auto result = solve::solve_by_elimination(problem.sum, table_cells);
    if (!result) return std::nullopt;
    if (!result->feasible) return Solution{};
    Solution best = solution_of(kept, problem, result->choice);
    best.min_cost = result->cost + problem.constant;
    if (problem.inexact_values == 0 || best.cost <= best.min_cost * (1 + 1e-11)) return best;
    // A transition was counted as free although it has a cost.
    const LayoutProblem true_prices = layout_problem(graph_, *subset, prices_, ChainOverflow::forbidden);
    const auto exact_solution = solve::solve_by_elimination(true_prices.sum, table_cells);
    if (!exact_solution || !exact_solution->feasible) return best;
    Solution candidate = solution_of(kept, true_prices, exact_solution->choice);
    candidate.min_cost = best.min_cost;
    return candidate.cost < best.cost ? candidate : best;
  }
  Solution solution_of(const ChoiceSubset& kept, const LayoutProblem& problem, const std::vector<int>& states) {
    Solution best{ById<NodeId, int>(kept.size()), 0, 0};
    for (NodeId n : kept.ids())
      best.chosen[n] = kept[n][static_cast<std::size_t>(states[static_cast<std::size_t>(problem.variable[n])])];
    best.cost = assignment_cost(graph_, choices_, best.chosen, prices_);
    if (std::isfinite(best.cost)) return best;
    if (const NodeId node = first_unsound(graph_, choices_, best.chosen, prices_); node.valid())
      faults_.push_back({node, best.chosen[node], unchecked_assignment_cost(graph_, choices_, best.chosen, prices_)});
    return best;
  }

  // Cycles through the axes until the assignment stays the same or equals `candidate`, the result of another descent.
  // Each step chooses the layouts on one axis again and keeps the layouts on the others.
  void descend_axes(SearchState& state, int first_axis, const SearchState& candidate) {
    SearchEffort effort = axes_ > 2 ? for_one_of_many : for_one_of_two;
    effort.table_cells = limits_.table_cells / 4 + 1;
    for (int round = 0, unchanged_axes = 0; unchanged_axes < axes_ && round < max_rounds * axes_; ++round) {
      const int axis = (first_axis + round) % axes_;
      SearchState axis_state{state.chosen, state.cost, 0, false};
      narrow(axis_state, choices_differing_on(axis, state.chosen), effort);
      ++unchanged_axes;
      if (!(axis_state.cost < state.cost * (1 - 1e-12))) continue;
      state.chosen = axis_state.chosen;
      state.cost = axis_state.cost;
      if (state.chosen == candidate.chosen) return;
      unchanged_axes = 1;
    }
  }

  // Searches single axes again, starting from the result of the reduced problems, which often differs much from the
  // start of the first descent.
  void repeat_axes(SearchState& best) {
    if (axes_ < 2 || !limits_.axis_by_axis) return;
    for (int first_axis = 0; first_axis < axes_ && best.cost < descended_; ++first_axis)
      descend_axes(best, first_axis, {});
    descended_ = best.cost;
  }

  // Returns the choices that differ from the chosen one only on this axis.
  ChoiceSubset choices_differing_on(int axis, const ById<NodeId, int>& chosen) const {
    ChoiceSubset kept(choices_.size());
    for (NodeId n : choices_.ids()) {
      const NodeChoice& current = choices_[n][static_cast<std::size_t>(chosen[n])];
      for (std::size_t c = 0; c < choices_[n].size(); ++c)
        if (equal_except_on_axis(choices_[n][c].ins(), current.ins(), axis) &&
            equal_except_on_axis(choices_[n][c].outs(), current.outs(), axis))
          kept[n].push_back(static_cast<int>(c));
    }
    return kept;
  }
  static bool equal_except_on_axis(const std::vector<Layout>& layouts, const std::vector<Layout>& others, int axis) {
    for (std::size_t i = 0; i < layouts.size(); ++i)
      for (std::size_t a = 0; a < layouts[i].size(); ++a)
        if (static_cast<int>(a) != axis && layouts[i][a] != others[i][a]) return false;
    return true;
  }

  const Graph& graph_;
  const Choices& choices_;
  TransitionCostCache& prices_;
  const SearchLimits& limits_;
  int axes_ = 1;
  std::vector<UnsoundChoice> faults_;
  std::size_t all_states_ = 0;
  double descended_ = INFINITY;  // cost of the assignment that no change on a single axis improves
};

}  // namespace

// The tables forbid nearly all unsound choices. If the search met another unsound choice that was cheaper than its
// result, the choice is removed and the search begins again. The bound of the first search stays valid.
LayoutSearchResult search_layouts(const Graph& graph, const Choices& choices, TransitionCostCache& prices,
                                  const SearchLimits& limits) {
  LayoutSearch first_search(graph, choices, prices, limits);
  LayoutSearchResult best = first_search.run();
  LayoutSearch::ChoiceSubset kept(choices.size());
  for (NodeId n : choices.ids())
    for (std::size_t c = 0; c < choices[n].size(); ++c) kept[n].push_back(static_cast<int>(c));
  auto faults = first_search.faults(best.cost);
  for (int repeat = 0; repeat < max_searches_again && !best.optimal && !faults.empty(); ++repeat) {
    for (const auto& [node, choice] : faults)
      if (kept[node].size() > 1) std::erase(kept[node], choice);
    Choices subset(choices.size());
    for (NodeId n : choices.ids())
      for (int number : kept[n]) subset[n].push_back(choices[n][static_cast<std::size_t>(number)]);
    LayoutSearch search(graph, subset, prices, limits);
    LayoutSearchResult second_result = search.run();
    auto original = [&](NodeId n, int number) { return kept[n][static_cast<std::size_t>(number)]; };
    for (NodeId n : choices.ids()) second_result.chosen[n] = original(n, second_result.chosen[n]);
    if (second_result.cost < best.cost) best.chosen = std::move(second_result.chosen), best.cost = second_result.cost;
    best.optimal = best.cost <= best.bound * (1 + 1e-11);
    faults = search.faults(best.cost);
    for (auto& [node, choice] : faults) choice = original(node, choice);
  }
  require(ErrorKind::layout, std::isfinite(best.cost),
          "shard: every choice of layouts that was tried requires a value in more than 16 layouts, or lets a masked "
          "sum reach a product (see docs/layouts.md)");
  return best;
}

}  // namespace karez::passes
