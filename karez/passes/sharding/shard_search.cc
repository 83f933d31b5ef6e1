// One axis at a time gives problems of few layouts, which elimination solves exactly; the best layouts on each axis
// alone are nearly the best. The bound then shows which layouts could still be part of a better choice, and those few
// are solved exactly together.
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

constexpr std::size_t many_states = 10'000;  // above it, a proof to the last digit is not attempted
constexpr double good_gap = 0.005;           // which is enough then
constexpr double fewer_of_many =
    0.85;  // with many states a round takes seconds: it must leave at most this share, or it is the last
constexpr double fewer_of_few = 0.95;
constexpr std::size_t cheap_cells_beyond_two = 16'000;  // replaces SearchLimits::cheap_cells
constexpr int max_rounds = 8;                           // over the axes
constexpr int max_searches_again = 2;
constexpr double pause_gap =
    0.003;  // of the cost: at this gap the bound pauses, since few enough layouts may be open to be solved together

struct SearchEffort {
  int passes, rounds, reduced_problems;
  std::size_t table_cells;   // of one table of an exact elimination
  bool repeat_axes = false;  // search single axes again after the reduced problems
};
// For one axis, with the others kept. Reduced problems make up for few passes; beyond two axes more passes lead to
// better choices than reduced problems do.
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
    ChoiceSubset all(choices_.size());
    for (NodeId n : choices_.ids())
      for (std::size_t c = 0; c < choices_[n].size(); ++c) all[n].push_back(static_cast<int>(c));
    if (axes_ > 1 && limits_.axis_by_axis) {
      const SearchState start = best;
      for (int first = 0; first < axes_; ++first) {
        SearchState here = start;
        descend(here, first, best);
        if (here.cost < best.cost) best = here;
      }
      descended_ = best.cost;
    }
    all_states_ = states_of(all);
    narrow(
        best, std::move(all),
        {limits_.passes, limits_.rounds, limits_.reduced_problems, limits_.table_cells, limits_.reduced_problems > 0});
    return {best.chosen, best.cost, best.bound, best.optimal,
            axes_ > 1 ? "axis by axis, bound and reduced problems" : "bound and reduced problems"};
  }

  // Choices that made an assignment unsound (see shard_sums.h) which costs less than `cost`.
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

  // Improves `best` within the kept choices: drops those that the bound proves to be part of no better assignment, and
  // begins again with the rest.
  void narrow(SearchState& best, ChoiceSubset kept, const SearchEffort& effort) {
    for (int round = 0; round < effort.rounds; ++round) {
      const bool everything = round == 0 && states_of(kept) == all_states_;
      const Choices some = everything ? Choices() : choices_among(kept);
      const Choices& few = everything ? choices_ : some;
      const LayoutProblem problem = layout_problem(graph_, few, prices_, ChainOverflow::free);
      if (everything) prices_.clear_tables();  // most sets of layouts are requested here and never again
      if (const auto exact = best_among(kept, problem, effort.table_cells, &few)) {
        const double lower = exact->least;
        take(best, *exact);
        best.bound = std::max(best.bound, std::min(best.cost, lower));
        best.optimal = best.cost <= best.bound * (1 + 1e-11);
        if (best.optimal) best.bound = best.cost;
        return;
      }
      const double ceiling = effort.reduced_problems > 0 ? best.cost - problem.constant : INFINITY;
      const double rest = std::isfinite(ceiling) ? ceiling - pause_gap * best.cost : INFINITY;
      solve::LowerBound least(problem.sum,
                              {effort.passes, axes_ > 2 ? cheap_cells_beyond_two : limits_.cheap_cells, ceiling, rest});
      if (update_from_bound(best, kept, problem, least)) return;
      if (least.is_paused()) {
        if (solve_open(best, kept, problem, least, effort)) return;
        least.resume();
        if (update_from_bound(best, kept, problem, least)) return;
      }
      if (effort.reduced_problems > 0 && improve(best, kept, problem, least, effort)) return;
      if (effort.repeat_axes) repeat_axes(best);
      if (!std::isfinite(best.cost)) return;  // no cost to compare other choices with
      if (states_of(kept) > many_states && best.cost - best.bound <= good_gap * best.cost) return;
      ChoiceSubset fewer = restricted(
          kept, problem, least.candidate_states(best.cost - least.bound() - problem.constant + 2 * least.rounding()),
          best.chosen);
      const std::size_t before = states_of(kept);
      kept = std::move(fewer);
      if (static_cast<double>(states_of(kept)) >
          (before > many_states ? fewer_of_many : fewer_of_few) * static_cast<double>(before))
        return;
    }
  }

  // Takes the bound, and the choice that it gives; true if it proves the best.
  bool update_from_bound(SearchState& best, const ChoiceSubset& kept, const LayoutProblem& problem,
                         const solve::LowerBound& least) {
    if (!least.rounded_choice().empty()) take(best, solution_of(kept, problem, least.rounded_choice()));
    best.bound = std::max(best.bound, std::min(best.cost, least.bound() + problem.constant));
    if (!std::isfinite(best.cost)) return !std::isfinite(best.bound);  // no choice is known; true if none exists
    if (best.cost - best.bound > 2 * least.rounding()) return false;
    best.optimal = true;
    best.bound = best.cost;
    return true;
  }

  // Solves all that the bound leaves open at once, if that is at most half of all; true if that proves the best.
  bool solve_open(SearchState& best, const ChoiceSubset& kept, const LayoutProblem& problem,
                  const solve::LowerBound& least, const SearchEffort& effort) {
    const ChoiceSubset open = reduced_problem(best, kept, problem, least, best.cost - least.bound() - problem.constant);
    return 2 * states_of(open) <= states_of(kept) && solve_reduced(best, open, best.cost, effort) && best.optimal;
  }

  // Reduced problems: solves the layouts that the bound puts within a small excess exactly, then those within twice the
  // excess, and so on. True if the best is proven.
  bool improve(SearchState& best, const ChoiceSubset& kept, const LayoutProblem& problem,
               const solve::LowerBound& least, const SearchEffort& effort) {
    const double floor = least.bound() + problem.constant;
    double excess = (best.cost - floor) / 1024;
    std::size_t before = 0;
    bool solved = false;
    for (int reduced = 0; reduced < effort.reduced_problems; ++reduced, excess *= 2) {
      const bool all = excess >= best.cost - floor;
      const double within = std::min(excess, best.cost - floor);
      const ChoiceSubset few = reduced_problem(best, kept, problem, least, within);
      if (states_of(few) == before && !all) continue;
      before = states_of(few);
      if (!solve_reduced(best, few, floor + within, effort)) {
        if (solved || reduced + 1 == effort.reduced_problems) return false;
        if (reduced == 0) {  // narrow it by its own bound
          SearchState here{best.chosen, best.cost, 0, false};
          narrow(here, few, {16, 4, 0, effort.table_cells});
          if (here.cost < best.cost) best.chosen = here.chosen, best.cost = here.cost;
        }
        excess /= 16;
        continue;
      }
      solved = true;
      if (all || best.optimal) return best.optimal;
    }
    return false;
  }

  ChoiceSubset reduced_problem(const SearchState& best, const ChoiceSubset& kept, const LayoutProblem& problem,
                               const solve::LowerBound& least, double excess) const {
    return restricted(kept, problem, least.candidate_states(excess + 2 * least.rounding()), best.chosen);
  }

  // Finds the best of few layouts, if it can; every choice outside of them costs at least `others`.
  bool solve_reduced(SearchState& best, const ChoiceSubset& few, double others, const SearchEffort& effort) {
    const Choices choices = choices_among(few);
    const LayoutProblem small = layout_problem(graph_, choices, prices_, ChainOverflow::free);
    const auto exact = best_among(few, small, effort.table_cells, &choices);
    if (!exact) return false;
    take(best, *exact);
    best.bound = std::max(best.bound, std::min({best.cost, exact->least, others}));
    best.optimal = best.cost <= best.bound * (1 + 1e-11);
    return true;
  }

  Choices choices_among(const ChoiceSubset& kept) const {
    Choices few;
    for (NodeId n : kept.ids()) {
      few.emplace_back();
      for (int number : kept[n]) few[n].push_back(choices_[n][static_cast<std::size_t>(number)]);
    }
    return few;
  }

  // The kept choices that are marked or chosen.
  static ChoiceSubset restricted(const ChoiceSubset& kept, const LayoutProblem& problem, const solve::StateMasks& marks,
                                 const ById<NodeId, int>& chosen) {
    ChoiceSubset fewer(kept.size());
    for (NodeId n : kept.ids())
      for (std::size_t c = 0; c < kept[n].size(); ++c)
        if (marks[static_cast<std::size_t>(problem.variable[n])][c] || kept[n][c] == chosen[n])
          fewer[n].push_back(kept[n][c]);
    return fewer;
  }

  // A choice, its true cost, and a lower bound for the kept choices.
  struct Solution {
    ById<NodeId, int> chosen;
    double cost = INFINITY, least = INFINITY;
  };
  static void take(SearchState& best, const Solution& other) {
    if (!(other.cost < best.cost * (1 - 1e-12))) return;
    best.chosen = other.chosen;
    best.cost = other.cost;
  }

  std::optional<Solution> best_among(const ChoiceSubset& kept, const LayoutProblem& problem, std::size_t table_cells,
                                     const Choices* few) {
    const auto result = solve::solve_by_elimination(problem.sum, table_cells);
    if (!result) return std::nullopt;
    if (!result->feasible) return Solution{};
    Solution best = solution_of(kept, problem, result->choice);
    best.least = result->cost + problem.constant;
    if (problem.inexact_values == 0 || best.cost <= best.least * (1 + 1e-11)) return best;
    // A transition counted as free that is not.
    const LayoutProblem true_prices = layout_problem(graph_, *few, prices_, ChainOverflow::forbidden);
    const auto dear = solve::solve_by_elimination(true_prices.sum, table_cells);
    if (!dear || !dear->feasible) return best;
    Solution other = solution_of(kept, true_prices, dear->choice);
    other.least = best.least;
    return other.cost < best.cost ? other : best;
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

  // Cycles through the axes until nothing changes, or until it reaches the result of another descent: each time it
  // takes the best layouts on one axis and keeps the others.
  void descend(SearchState& answer, int first, const SearchState& other) {
    SearchEffort effort = axes_ > 2 ? for_one_of_many : for_one_of_two;
    effort.table_cells = limits_.table_cells / 4 + 1;
    for (int round = 0, still = 0; still < axes_ && round < max_rounds * axes_; ++round) {
      const int axis = (first + round) % axes_;
      SearchState here{answer.chosen, answer.cost, 0, false};
      narrow(here, choices_differing_on(axis, answer.chosen), effort);
      ++still;
      if (!(here.cost < answer.cost * (1 - 1e-12))) continue;
      answer.chosen = here.chosen;
      answer.cost = here.cost;
      if (answer.chosen == other.chosen) return;
      still = 1;
    }
  }

  // Searches single axes again from the result of the reduced problems, which is often far from that of the first
  // start.
  void repeat_axes(SearchState& best) {
    if (axes_ < 2 || !limits_.axis_by_axis) return;
    for (int first = 0; first < axes_ && best.cost < descended_; ++first) descend(best, first, {});
    descended_ = best.cost;
  }

  // The choices that differ from the chosen one on this axis alone.
  ChoiceSubset choices_differing_on(int axis, const ById<NodeId, int>& chosen) const {
    ChoiceSubset kept(choices_.size());
    for (NodeId n : choices_.ids()) {
      const NodeChoice& now = choices_[n][static_cast<std::size_t>(chosen[n])];
      for (std::size_t c = 0; c < choices_[n].size(); ++c)
        if (equal_except_on_axis(choices_[n][c].ins(), now.ins(), axis) &&
            equal_except_on_axis(choices_[n][c].outs(), now.outs(), axis))
          kept[n].push_back(static_cast<int>(c));
    }
    return kept;
  }
  static bool equal_except_on_axis(const std::vector<Layout>& one, const std::vector<Layout>& other, int axis) {
    for (std::size_t i = 0; i < one.size(); ++i)
      for (std::size_t a = 0; a < one[i].size(); ++a)
        if (static_cast<int>(a) != axis && one[i][a] != other[i][a]) return false;
    return true;
  }

  const Graph& graph_;
  const Choices& choices_;
  TransitionCostCache& prices_;
  const SearchLimits& limits_;
  int axes_ = 1;
  std::vector<UnsoundChoice> faults_;
  std::size_t all_states_ = 0;
  double descended_ = INFINITY;  // cost of the choice that no single axis improves
};

}  // namespace

// The tables forbid nearly all unsound choices. If another unsound one was cheaper, that choice is removed and the
// search begins again; the bound of the first search stays valid.
LayoutSearchResult search_layouts(const Graph& graph, const Choices& choices, TransitionCostCache& prices,
                                  const SearchLimits& limits) {
  LayoutSearch first(graph, choices, prices, limits);
  LayoutSearchResult best = first.run();
  LayoutSearch::ChoiceSubset kept(choices.size());
  for (NodeId n : choices.ids())
    for (std::size_t c = 0; c < choices[n].size(); ++c) kept[n].push_back(static_cast<int>(c));
  auto faults = first.faults(best.cost);
  for (int again = 0; again < max_searches_again && !best.optimal && !faults.empty(); ++again) {
    for (const auto& [node, choice] : faults)
      if (kept[node].size() > 1) std::erase(kept[node], choice);
    Choices few(choices.size());
    for (NodeId n : choices.ids())
      for (int number : kept[n]) few[n].push_back(choices[n][static_cast<std::size_t>(number)]);
    LayoutSearch search(graph, few, prices, limits);
    LayoutSearchResult found = search.run();
    auto original = [&](NodeId n, int number) { return kept[n][static_cast<std::size_t>(number)]; };
    for (NodeId n : choices.ids()) found.chosen[n] = original(n, found.chosen[n]);
    if (found.cost < best.cost) best.chosen = std::move(found.chosen), best.cost = found.cost;
    best.optimal = best.cost <= best.bound * (1 + 1e-11);
    faults = search.faults(best.cost);
    for (auto& [node, choice] : faults) choice = original(node, choice);
  }
  require(ErrorKind::layout, std::isfinite(best.cost),
          "shard: a value is required in more than 16 layouts, or in a Partial layout that masked sums must not have");
  return best;
}

}  // namespace karez::passes
