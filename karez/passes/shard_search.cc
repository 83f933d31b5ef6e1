// One axis at a time leaves problems of few layouts that elimination solves exactly; what is best on each axis by
// itself is nearly best. The bound then says which layouts could still be part of a better choice, and those few are
// solved exactly together.
#include "karez/passes/shard_search.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "karez/passes/shard_sums.h"
#include "karez/passes/shard_tables.h"
#include "karez/solve/reduced_search.h"

namespace karez::passes {
namespace {

constexpr std::size_t many_states = 10'000;  // where a proof to the last digit is not tried
constexpr double good_gap = 0.005;           // in its place
constexpr double fewer_of_many =
    0.85;  // there a round takes seconds: it must leave at most this share, or it was the last
constexpr double fewer_of_few = 0.95;
constexpr std::size_t cheap_cells_beyond_two = 16'000;  // in place of those in SearchLimits
constexpr int most_rounds = 8;                          // over the axes
constexpr int most_searches_again = 2;
constexpr double near =
    0.003;  // of the cost: so close a bound rests, for what it leaves open may be few enough to be solved together

struct Effort {
  int passes, rounds, cores;
  std::size_t table_cells;  // of one table of an exact elimination
  bool axes_again = false;  // what cores found moves along single axes once more
};
// For one axis, the others as they are. Cores mend what few passes leave open; beyond two axes more passes lead to
// better choices than cores do.
constexpr Effort for_one_of_two = {6, 6, 2, 0}, for_one_of_many = {24, 6, 0, 0};

class LayoutSearch {
 public:
  LayoutSearch(const Graph& graph, const Choices& choices, TreePrices& prices, const SearchLimits& limits)
      : graph_(graph),
        choices_(choices),
        prices_(prices),
        limits_(limits) {
    for (const Mesh& mesh : graph.meshes) axes_ = std::max(axes_, mesh.rank());
  }

  Searched run() {
    Answer best{ById<NodeId, int>(choices_.size(), 0), 0, 0, false};
    best.cost = price(graph_, choices_, best.chosen, prices_);
    Kept all(choices_.size());
    for (NodeId n : choices_.ids())
      for (std::size_t c = 0; c < choices_[n].size(); ++c) all[n].push_back(static_cast<int>(c));
    if (axes_ > 1 && limits_.axis_by_axis) {
      const Answer start = best;
      for (int first = 0; first < axes_; ++first) {
        Answer here = start;
        descend(here, first, best);
        if (here.cost < best.cost) best = here;
      }
      descended_ = best.cost;
    }
    all_states_ = states_of(all);
    narrow(best, std::move(all),
           {limits_.passes, limits_.rounds, limits_.cores, limits_.table_cells, limits_.cores > 0});
    return {best.chosen, best.cost, best.bound, best.optimal,
            axes_ > 1 ? "axis by axis, bound and cores" : "bound and cores"};
  }

  // Choices by which an assignment of layouts was cheaper than this, and unsound (see shard_sums.h).
  std::vector<std::pair<NodeId, int>> faults(double cost) const {
    std::vector<std::pair<NodeId, int>> out;
    for (const Fault& fault : faults_)
      if (fault.cost < cost * (1 - 1e-9)) out.emplace_back(fault.node, fault.choice);
    return out;
  }

  // Numbers of the choices that stay, by node.
  using Kept = ById<NodeId, std::vector<int>>;

 private:
  struct Fault {
    NodeId node;
    int choice;
    double cost;
  };
  struct Answer {
    ById<NodeId, int> chosen;
    double cost = INFINITY, bound = 0;
    bool optimal = false;
  };

  static std::size_t states_of(const Kept& kept) {
    std::size_t states = 0;
    for (const auto& numbers : kept) states += numbers.size();
    return states;
  }

  // Improves an answer within what is kept: drops what the bound proves to be in no better choice, and begins again
  // with what is left.
  void narrow(Answer& best, Kept kept, const Effort& effort) {
    for (int round = 0; round < effort.rounds; ++round) {
      const bool everything = round == 0 && states_of(kept) == all_states_;
      const Choices some = everything ? Choices() : choices_among(kept);
      const Choices& few = everything ? choices_ : some;
      const LayoutProblem problem = layout_problem(graph_, few, prices_, Crowds::free);
      if (everything) prices_.forget();  // most sets of layouts are asked for here and never again
      if (const auto exact = best_among(kept, problem, effort.table_cells, &few)) {
        const double lower = exact->least;
        take(best, *exact);
        best.bound = std::max(best.bound, std::min(best.cost, lower));
        best.optimal = best.cost <= best.bound * (1 + 1e-11);
        if (best.optimal) best.bound = best.cost;
        return;
      }
      const double ceiling = effort.cores > 0 ? best.cost - problem.constant : INFINITY;
      const double rest = std::isfinite(ceiling) ? ceiling - near * best.cost : INFINITY;
      solve::LowerBound least(problem.sum,
                              {effort.passes, axes_ > 2 ? cheap_cells_beyond_two : limits_.cheap_cells, ceiling, rest});
      if (heed(best, kept, problem, least)) return;
      if (least.is_paused()) {
        if (close(best, kept, problem, least, effort)) return;
        least.resume();
        if (heed(best, kept, problem, least)) return;
      }
      if (effort.cores > 0 && improve(best, kept, problem, least, effort)) return;
      if (effort.axes_again) axes_again(best);
      if (!std::isfinite(best.cost)) return;  // nothing to measure other choices by
      if (states_of(kept) > many_states && best.cost - best.bound <= good_gap * best.cost) return;
      Kept fewer = restricted(
          kept, problem, least.candidate_states(best.cost - least.bound() - problem.constant + 2 * least.rounding()),
          best.chosen);
      const std::size_t before = states_of(kept);
      kept = std::move(fewer);
      if (static_cast<double>(states_of(kept)) >
          (before > many_states ? fewer_of_many : fewer_of_few) * static_cast<double>(before))
        return;
    }
  }

  // Takes the choice that follows a bound, and the bound; true where it proves the best.
  bool heed(Answer& best, const Kept& kept, const LayoutProblem& problem, const solve::LowerBound& least) {
    if (!least.rounded_choice().empty()) take(best, priced(kept, problem, least.rounded_choice()));
    best.bound = std::max(best.bound, std::min(best.cost, least.bound() + problem.constant));
    if (!std::isfinite(best.cost)) return !std::isfinite(best.bound);  // no choice is known; and none can be
    if (best.cost - best.bound > 2 * least.rounding()) return false;
    best.optimal = true;
    best.bound = best.cost;
    return true;
  }

  // All that the bound leaves open at once, where that is at most half of all; true where that proves the best.
  bool close(Answer& best, const Kept& kept, const LayoutProblem& problem, const solve::LowerBound& least,
             const Effort& effort) {
    const Kept open = core_of(best, kept, problem, least, best.cost - least.bound() - problem.constant);
    return 2 * states_of(open) <= states_of(kept) && solve_core(best, open, best.cost, effort) && best.optimal;
  }

  // Cores: those layouts that the bound puts within little of the best, solved exactly, then those within twice as
  // much. True where the best is proven.
  bool improve(Answer& best, const Kept& kept, const LayoutProblem& problem, const solve::LowerBound& least,
               const Effort& effort) {
    const double floor = least.bound() + problem.constant;
    double excess = (best.cost - floor) / 1024;
    std::size_t before = 0;
    bool solved = false;
    for (int core = 0; core < effort.cores; ++core, excess *= 2) {
      const bool all = excess >= best.cost - floor;
      const double within = std::min(excess, best.cost - floor);
      const Kept few = core_of(best, kept, problem, least, within);
      if (states_of(few) == before && !all) continue;
      before = states_of(few);
      if (!solve_core(best, few, floor + within, effort)) {
        if (solved || core + 1 == effort.cores) return false;
        if (core == 0) {  // what its own bound leaves of it
          Answer here{best.chosen, best.cost, 0, false};
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

  Kept core_of(const Answer& best, const Kept& kept, const LayoutProblem& problem, const solve::LowerBound& least,
               double excess) const {
    return restricted(kept, problem, least.candidate_states(excess + 2 * least.rounding()), best.chosen);
  }

  // The best of few layouts, where it can be found; every choice beside them costs at least `others`.
  bool solve_core(Answer& best, const Kept& few, double others, const Effort& effort) {
    const Choices choices = choices_among(few);
    const LayoutProblem small = layout_problem(graph_, choices, prices_, Crowds::free);
    const auto exact = best_among(few, small, effort.table_cells, &choices);
    if (!exact) return false;
    take(best, *exact);
    best.bound = std::max(best.bound, std::min({best.cost, exact->least, others}));
    best.optimal = best.cost <= best.bound * (1 + 1e-11);
    return true;
  }

  Choices choices_among(const Kept& kept) const {
    Choices few;
    for (NodeId n : kept.ids()) {
      few.emplace_back();
      for (int number : kept[n]) few[n].push_back(choices_[n][static_cast<std::size_t>(number)]);
    }
    return few;
  }

  // Of what is kept the states marked, and what is chosen.
  static Kept restricted(const Kept& kept, const LayoutProblem& problem, const solve::StateMasks& marks,
                         const ById<NodeId, int>& chosen) {
    Kept fewer(kept.size());
    for (NodeId n : kept.ids())
      for (std::size_t c = 0; c < kept[n].size(); ++c)
        if (marks[static_cast<std::size_t>(problem.variable[n])][c] || kept[n][c] == chosen[n])
          fewer[n].push_back(kept[n][c]);
    return fewer;
  }

  // A choice, its true price, and what every choice among those kept costs at least.
  struct Best {
    ById<NodeId, int> chosen;
    double cost = INFINITY, least = INFINITY;
  };
  static void take(Answer& best, const Best& other) {
    if (!(other.cost < best.cost * (1 - 1e-12))) return;
    best.chosen = other.chosen;
    best.cost = other.cost;
  }

  std::optional<Best> best_among(const Kept& kept, const LayoutProblem& problem, std::size_t table_cells,
                                 const Choices* few) {
    const auto result = solve::solve_by_elimination(problem.sum, table_cells);
    if (!result) return std::nullopt;
    if (!result->feasible) return Best{};
    Best best = priced(kept, problem, result->choice);
    best.least = result->cost + problem.constant;
    if (problem.crowds == 0 || best.cost <= best.least * (1 + 1e-11)) return best;
    // Something was free that is not.
    const LayoutProblem true_prices = layout_problem(graph_, *few, prices_, Crowds::forbidden);
    const auto dear = solve::solve_by_elimination(true_prices.sum, table_cells);
    if (!dear || !dear->feasible) return best;
    Best other = priced(kept, true_prices, dear->choice);
    other.least = best.least;
    return other.cost < best.cost ? other : best;
  }
  Best priced(const Kept& kept, const LayoutProblem& problem, const std::vector<int>& states) {
    Best best{ById<NodeId, int>(kept.size()), 0, 0};
    for (NodeId n : kept.ids())
      best.chosen[n] = kept[n][static_cast<std::size_t>(states[static_cast<std::size_t>(problem.variable[n])])];
    best.cost = price(graph_, choices_, best.chosen, prices_);
    if (std::isfinite(best.cost)) return best;
    if (const NodeId node = first_unsound(graph_, choices_, best.chosen, prices_); node.valid())
      faults_.push_back({node, best.chosen[node], price_of_all(graph_, choices_, best.chosen, prices_)});
    return best;
  }

  // Round the axes until nothing moves, or until it stands where another descent ended: each time the best layouts on
  // one axis, those on the others as they are.
  void descend(Answer& answer, int first, const Answer& other) {
    Effort effort = axes_ > 2 ? for_one_of_many : for_one_of_two;
    effort.table_cells = limits_.table_cells / 4 + 1;
    for (int round = 0, still = 0; still < axes_ && round < most_rounds * axes_; ++round) {
      const int axis = (first + round) % axes_;
      Answer here{answer.chosen, answer.cost, 0, false};
      narrow(here, alike_but_on(axis, answer.chosen), effort);
      ++still;
      if (!(here.cost < answer.cost * (1 - 1e-12))) continue;
      answer.chosen = here.chosen;
      answer.cost = here.cost;
      if (answer.chosen == other.chosen) return;
      still = 1;
    }
  }

  // What cores found moves along single axes once more: it is often elsewhere than where the first start led.
  void axes_again(Answer& best) {
    if (axes_ < 2 || !limits_.axis_by_axis) return;
    for (int first = 0; first < axes_ && best.cost < descended_; ++first) descend(best, first, {});
    descended_ = best.cost;
  }

  // The choices that differ from the chosen one on this axis alone.
  Kept alike_but_on(int axis, const ById<NodeId, int>& chosen) const {
    Kept kept(choices_.size());
    for (NodeId n : choices_.ids()) {
      const NodeChoice& now = choices_[n][static_cast<std::size_t>(chosen[n])];
      for (std::size_t c = 0; c < choices_[n].size(); ++c)
        if (alike(choices_[n][c].ins(), now.ins(), axis) && alike(choices_[n][c].outs(), now.outs(), axis))
          kept[n].push_back(static_cast<int>(c));
    }
    return kept;
  }
  static bool alike(const std::vector<Layout>& one, const std::vector<Layout>& other, int axis) {
    for (std::size_t i = 0; i < one.size(); ++i)
      for (std::size_t a = 0; a < one[i].size(); ++a)
        if (static_cast<int>(a) != axis && one[i][a] != other[i][a]) return false;
    return true;
  }

  const Graph& graph_;
  const Choices& choices_;
  TreePrices& prices_;
  const SearchLimits& limits_;
  int axes_ = 1;
  std::vector<Fault> faults_;
  std::size_t all_states_ = 0;
  double descended_ = INFINITY;  // cost of the choice that no single axis improves
};

}  // namespace

// The tables forbid nearly all that is unsound. Where something else was cheaper, the choice at fault goes, and the
// search begins again; the bound of the first search stays true.
Searched search_layouts(const Graph& graph, const Choices& choices, TreePrices& prices, const SearchLimits& limits) {
  LayoutSearch first(graph, choices, prices, limits);
  Searched best = first.run();
  LayoutSearch::Kept kept(choices.size());
  for (NodeId n : choices.ids())
    for (std::size_t c = 0; c < choices[n].size(); ++c) kept[n].push_back(static_cast<int>(c));
  auto faults = first.faults(best.cost);
  for (int again = 0; again < most_searches_again && !best.optimal && !faults.empty(); ++again) {
    for (const auto& [node, choice] : faults)
      if (kept[node].size() > 1) std::erase(kept[node], choice);
    Choices few(choices.size());
    for (NodeId n : choices.ids())
      for (int number : kept[n]) few[n].push_back(choices[n][static_cast<std::size_t>(number)]);
    LayoutSearch search(graph, few, prices, limits);
    Searched found = search.run();
    auto original = [&](NodeId n, int number) { return kept[n][static_cast<std::size_t>(number)]; };
    for (NodeId n : choices.ids()) found.chosen[n] = original(n, found.chosen[n]);
    if (found.cost < best.cost) best.chosen = std::move(found.chosen), best.cost = found.cost;
    best.optimal = best.cost <= best.bound * (1 + 1e-11);
    faults = search.faults(best.cost);
    for (auto& [node, choice] : faults) choice = original(node, choice);
  }
  require(
      ErrorKind::layout, std::isfinite(best.cost),
      "shard: a value is wanted in more than 16 layouts, or in one that only sums of other parts than zeros may have");
  return best;
}

}  // namespace karez::passes
