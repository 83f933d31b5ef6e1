// Reduce, bound, prune; then eliminate exactly, or search where tables would grow too large.
#include "solve/min_sum.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "solve/buckets.h"
#include "solve/cost_graph.h"
#include "solve/dual_bound.h"
#include "solve/local_search.h"

namespace karez::solve {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr int pass_pairs = 2;               // descending and ascending passes per round
constexpr double most_dual_work = 1 << 30;  // cells that all passes together may read
constexpr double small_work = 1 << 16;      // an elimination of so few cells is not worth avoiding
constexpr int patience = 3;                 // rounds that neither drop a state nor close a hundredth of the gap

// The variables that still have a choice, and what links them.
struct Outline {
  std::vector<int> sizes, variables;
  Scopes scopes;
};

Outline outline(const CostGraph& graph) {
  Outline out;
  for (int v = 0; v < graph.variables(); ++v) {
    out.sizes.push_back(graph.size(v));
    if (graph.size(v) > 1) out.variables.push_back(v);
  }
  for (const Table& table : graph.tables) {
    out.scopes.emplace_back();
    for (int v : table.scope)
      if (graph.size(v) > 1) out.scopes.back().push_back(v);
  }
  return out;
}

// Groups of variables that no table links, each ascending, ordered by their first.
std::vector<std::vector<int>> components(const CostGraph& graph, const std::vector<int>& variables) {
  std::vector<std::vector<int>> groups;
  std::vector<char> seen(graph.states.size(), 0);
  for (int start : variables) {
    if (seen[start]) continue;
    std::vector<int> group{start};
    seen[start] = 1;
    for (std::size_t i = 0; i < group.size(); ++i)
      for (Use use : graph.uses[group[i]])
        for (int w : graph.tables[use.table].scope)
          if (!seen[w]) {
            seen[w] = 1;
            group.push_back(w);
          }
    std::sort(group.begin(), group.end());
    groups.push_back(std::move(group));
  }
  return groups;
}

class Solver {
 public:
  Solver(const MinSumProblem& problem, const MinSumLimits& limits)
      : problem_(problem),
        limits_(limits),
        graph_(cost_graph(problem)),
        slack_(1e-12 * magnitude(graph_)) {}

  MinSumResult run() {
    Marks dead = no_marks(graph_);
    if (!propagate(graph_, dead)) return forbidden("a variable has no allowed state");
    mark_dominated(graph_, dead);
    propagate(graph_, dead);
    drop(graph_, dead);
    Reweighting r = reweighting(graph_);
    tighten(r);
    if (closed()) return answer(true, cat("the bound meets the choice after ", passes_, " passes"));
    return finish(r);
  }

 private:
  bool closed() const { return cost_ < inf && cost_ - bound_ <= slack_; }

  // Alternates passes of the dual bound with choices and pruning, until elimination costs no more than what was spent on avoiding it.
  void tighten(Reweighting& r) {
    double spent = 0;
    for (int idle = 0; idle < patience;) {
      Outline o = outline(graph_);
      Buckets plan = plan_within(o.sizes, o.scopes, elimination_order(o.sizes, o.scopes, o.variables), limits_.table_cells);
      double round = 2.0 * pass_pairs * static_cast<double>(pass_cells(graph_));
      if ((plan.exact && plan.work <= spent + round + small_work) || spent + round > most_dual_work) return;
      spent += round;
      double before_cost = cost_, before_bound = bound_;
      Marks dead = no_marks(graph_);
      double ceiling = cost_ + slack_;
      for (int i = 0; i < pass_pairs; ++i) {
        bool choose = i + 1 == pass_pairs;
        pass(graph_, r, false, ceiling, dead);
        if (choose) offer_rounded(r, true);
        pass(graph_, r, true, ceiling, dead);
        if (choose) offer_rounded(r, false);
      }
      passes_ += 2 * pass_pairs;
      bound_ = std::max(bound_, r.bound);
      if (closed()) return;
      bool better = before_cost == inf || (before_cost - cost_) + (bound_ - before_bound) > 0.01 * (before_cost - before_bound);
      if (!best_.empty()) {  // in theory never marked; rounding must not prove otherwise
        std::vector<int> safe = local_best();
        for (std::size_t v = 0; v < safe.size(); ++v) dead[v][safe[v]] = 0;
      }
      bool dropped = any(dead);
      idle = better || dropped ? 0 : idle + 1;
      if (!dropped) continue;
      propagate(graph_, dead);
      drop(r, graph_, dead);
      drop(graph_, dead);
    }
  }

  MinSumResult finish(const Reweighting& r) {
    CostGraph small = folded(graph_);
    Outline o = outline(small);
    Buckets plan = plan_within(o.sizes, o.scopes, elimination_order(o.sizes, o.scopes, o.variables), limits_.table_cells);
    if (!plan.exact) return search_components(r);
    if (fill(small, plan) == inf) return forbidden("elimination finds no allowed choice");
    std::vector<int> choice(small.states.size(), 0);
    read_choice(small, plan, choice);
    offer(choice);
    return answer(true, cat("exact elimination of ", o.variables.size(), " of ", small.variables(), " variables, largest table ",
                            static_cast<long>(plan.widest), " cells"));
  }

  // Too wide for elimination: reweighted costs make mini-buckets lose little, and parts that pruning has separated are solved apart.
  MinSumResult search_components(const Reweighting& r) {
    CostGraph wide = reweighted(graph_, r);
    CostGraph small = folded(wide);
    Outline o = outline(small);
    std::vector<int> choice = best_.empty() ? std::vector<int>(small.states.size(), 0) : local_best();
    double bound = small.constant;
    for (int v = 0; v < small.variables(); ++v)
      if (small.size(v) == 1) bound += small.unary[v][0];
    bool finished = true;
    long left = limits_.search_steps, used = 0;
    auto groups = components(small, o.variables);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      Buckets plan = plan_within(o.sizes, o.scopes, elimination_order(o.sizes, o.scopes, groups[g]), limits_.table_cells);
      double least = fill(small, plan);
      if (least == inf) return forbidden("elimination finds no allowed choice");
      if (plan.exact) {
        read_choice(small, plan, choice);
        bound += least;
        continue;
      }
      double start = best_.empty() ? inf : cost_of_group(small, groups[g], choice);
      SearchResult found = search(small, plan, choice, start, slack_, left / static_cast<long>(groups.size() - g));
      left -= found.steps;
      used += found.steps;
      if (found.finished && found.cost == inf) return forbidden("search finds no allowed choice");
      bound += found.finished ? std::max(least, found.cost - slack_) : least;
      finished &= found.finished;
    }
    bound_ = std::max(bound_, bound - slack_);
    offer(choice);
    if (!finished) {
      improve(graph_, choice);
      offer(choice);
    }
    return answer(finished || closed(), cat("search of ", o.variables.size(), " of ", small.variables(), " variables, ", used, " steps"));
  }

  static double cost_of_group(const CostGraph& graph, const std::vector<int>& group, const std::vector<int>& choice) {
    double cost = 0;
    for (int v : group) {
      cost += graph.unary[v][choice[v]];
      for (Use use : graph.uses[v]) {
        if (use.axis != 0) continue;  // each table once
        const Table& table = graph.tables[use.table];
        std::size_t at = 0;
        for (int w : table.scope) at = at * graph.size(w) + choice[w];
        cost += table.cells()[at];
      }
    }
    return cost;
  }

  void offer_rounded(const Reweighting& r, bool ascending) {
    std::vector<int> choice = round_choice(graph_, r, ascending);
    offer(choice);
    improve(graph_, choice);
    offer(choice);
  }

  // Takes a choice of the graph's states if it is cheaper than the best.
  void offer(const std::vector<int>& local) {
    std::vector<int> choice(local.size());
    for (std::size_t v = 0; v < choice.size(); ++v) choice[v] = graph_.states[v][local[v]];
    double cost = 0;
    for (const Factor& factor : problem_.factors) {
      std::size_t at = 0;
      for (int v : factor.scope) at = at * problem_.domain[v] + choice[v];
      cost += factor.cost[at];
    }
    if (!(cost < cost_)) return;
    cost_ = cost;
    best_ = std::move(choice);
  }

  std::vector<int> local_best() const {  // its states are never dropped
    std::vector<int> local(best_.size());
    for (std::size_t v = 0; v < local.size(); ++v) {
      const auto& states = graph_.states[v];
      local[v] = static_cast<int>(std::lower_bound(states.begin(), states.end(), best_[v]) - states.begin());
    }
    return local;
  }

  MinSumResult answer(bool optimal, std::string method) const {
    bool feasible = cost_ < inf;
    double bound = optimal ? cost_ : std::min(cost_, bound_ - slack_);
    return {.feasible = feasible, .choice = best_, .cost = cost_, .lower_bound = bound, .optimal = optimal, .method = std::move(method)};
  }

  MinSumResult forbidden(std::string method) const {
    return {.feasible = false, .choice = {}, .cost = inf, .lower_bound = inf, .optimal = true, .method = std::move(method)};
  }

  const MinSumProblem& problem_;
  const MinSumLimits& limits_;
  CostGraph graph_;
  double slack_;           // rounding of sums over the whole graph
  std::vector<int> best_;  // in the caller's states; empty: none yet
  double cost_ = inf, bound_ = -inf;
  int passes_ = 0;
};
}  // namespace

MinSumResult min_sum(const MinSumProblem& problem, const MinSumLimits& limits) {
  require(limits.table_cells > 0 && limits.search_steps >= 0, "min_sum: limits must be positive: ", limits.table_cells, " cells, ",
          limits.search_steps, " steps");
  return Solver(problem, limits).run();
}

}  // namespace karez::solve
