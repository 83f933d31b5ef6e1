// One axis at a time leaves problems of few layouts that elimination solves exactly; what is best on each axis by itself is nearly best. The bound
// then says which layouts could still be part of a better choice, and those few are solved exactly together.
#include "passes/shard_search.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "passes/shard_tables.h"
#include "solve/core.h"

namespace karez::passes {
namespace {

constexpr std::size_t cheap_cells = 16'000;  // of one table, before the bound
constexpr int most_rounds = 8;               // over the axes

struct Effort {
  int passes, rounds;
  std::size_t table_cells;  // of one table of an exact elimination
};
constexpr Effort one_axis{6, 6, 1 << 18}, whole{10, 12, 1 << 20};

class LayoutSearch {
 public:
  LayoutSearch(const Graph& graph, const Choices& choices, TreePrices& prices) : graph_(graph), choices_(choices), prices_(prices) {
    for (const Mesh& mesh : graph.meshes) axes_ = std::max(axes_, mesh.rank());
  }

  Searched run() {
    Answer best{ById<NodeId, int>(choices_.size(), 0), 0, 0, false};
    best.cost = price(graph_, choices_, best.chosen, prices_);
    Kept all(choices_.size());
    for (NodeId n : choices_.ids())
      for (std::size_t c = 0; c < choices_[n].size(); ++c) all[n].push_back(static_cast<int>(c));
    if (axes_ > 1) {
      const Answer start = best;
      for (int first = 0; first < axes_; ++first) {
        Answer here = start;
        descend(here, first);
        if (here.cost < best.cost) best = here;
      }
    }
    narrow(best, all, whole);
    require(ErrorKind::layout, std::isfinite(best.cost), "shard: a value is wanted in more than 16 layouts");
    return {best.chosen, best.cost, best.bound, best.optimal, axes_ > 1 ? "axis by axis, bound and cores" : "bound and cores"};
  }

 private:
  // Numbers of the choices that stay, by node.
  using Kept = ById<NodeId, std::vector<int>>;

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

  // Improves an answer within what is kept: drops what the bound proves to be in no better choice, and begins again with what is left.
  void narrow(Answer& best, Kept kept, const Effort& effort) {
    for (int round = 0; round < effort.rounds; ++round) {
      Choices few = choices_among(kept);
      const LayoutProblem problem = layout_problem(graph_, few, prices_, Crowds::free);
      if (const auto exact = best_among(kept, problem, effort.table_cells, &few)) {
        const double lower = exact->least;
        take(best, *exact);
        best.bound = std::max(best.bound, std::min(best.cost, lower));
        best.optimal = best.cost <= best.bound * (1 + 1e-11);
        if (best.optimal) best.bound = best.cost;
        return;
      }
      const solve::LowerBound least(problem.sum, effort.passes, cheap_cells);
      if (!least.rounded().empty()) take(best, priced(kept, least.rounded()));
      best.bound = std::max(best.bound, std::min(best.cost, least.bound() + problem.constant));
      if (best.cost - best.bound <= 2 * least.rounding()) {
        best.optimal = true;
        best.bound = best.cost;
        return;
      }
      Kept fewer = restricted(kept, least.within(best.cost - least.bound() - problem.constant + 2 * least.rounding()), best.chosen);
      const std::size_t before = states_of(kept);
      kept = std::move(fewer);
      if (static_cast<double>(states_of(kept)) > 0.95 * static_cast<double>(before)) { return; }
    }
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
  static Kept restricted(const Kept& kept, const solve::Marks& marks, const ById<NodeId, int>& chosen) {
    Kept fewer(kept.size());
    for (NodeId n : kept.ids())
      for (std::size_t c = 0; c < kept[n].size(); ++c)
        if (marks[static_cast<std::size_t>(n.index)][c] || kept[n][c] == chosen[n]) fewer[n].push_back(kept[n][c]);
    return fewer;
  }

  ById<NodeId, int> chosen_of(const std::vector<int>& numbers) const {  // the solver's first variables are the nodes
    ById<NodeId, int> chosen(choices_.size());
    for (NodeId n : chosen.ids()) chosen[n] = numbers[static_cast<std::size_t>(n.index)];
    return chosen;
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

  std::optional<Best> best_among(const Kept& kept, const LayoutProblem& problem, std::size_t table_cells, const Choices* few) {
    const auto result = solve::eliminated(problem.sum, table_cells);
    if (!result) return std::nullopt;
    if (!result->feasible) return Best{};
    Best best = priced(kept, result->choice);
    best.least = result->cost + problem.constant;
    if (problem.crowds == 0 || best.cost <= best.least * (1 + 1e-11)) return best;
    // Something was free that is not.
    const auto dear = solve::eliminated(layout_problem(graph_, *few, prices_, Crowds::forbidden).sum, table_cells);
    if (!dear || !dear->feasible) return best;
    Best other = priced(kept, dear->choice);
    other.least = best.least;
    return other.cost < best.cost ? other : best;
  }
  Best priced(const Kept& kept, const std::vector<int>& numbers) {
    Best best{chosen_of(numbers), 0, 0};
    for (NodeId n : kept.ids()) best.chosen[n] = kept[n][static_cast<std::size_t>(best.chosen[n])];
    best.cost = price(graph_, choices_, best.chosen, prices_);
    return best;
  }

  // Round the axes until nothing moves: each time the best layouts on one axis, those on the others as they are.
  void descend(Answer& answer, int first) {
    for (int round = 0, still = 0; still < axes_ && round < most_rounds * axes_; ++round) {
      const int axis = (first + round) % axes_;
      Answer here{answer.chosen, answer.cost, 0, false};
      narrow(here, alike_but_on(axis, answer.chosen), one_axis);
      ++still;
      if (!(here.cost < answer.cost * (1 - 1e-12))) continue;
      answer.chosen = here.chosen;
      answer.cost = here.cost;
      still = 1;
    }
  }

  // The choices that differ from the chosen one on this axis alone.
  Kept alike_but_on(int axis, const ById<NodeId, int>& chosen) const {
    Kept kept(choices_.size());
    for (NodeId n : choices_.ids()) {
      const NodeChoice& now = choices_[n][static_cast<std::size_t>(chosen[n])];
      for (std::size_t c = 0; c < choices_[n].size(); ++c)
        if (alike(choices_[n][c].ins, now.ins, axis) && alike(choices_[n][c].outs, now.outs, axis)) kept[n].push_back(static_cast<int>(c));
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
  int axes_ = 1;
};

}  // namespace

Searched search_layouts(const Graph& graph, const Choices& choices, TreePrices& prices) { return LayoutSearch(graph, choices, prices).run(); }

}  // namespace karez::passes
