// Coordinate descent on cost graphs with single and pairwise moves.
#include "solve/local_search.h"

#include <algorithm>

namespace karez::solve {
namespace {
class Descent {
 public:
  Descent(const CostGraph& graph, std::vector<int>& choice) : graph_(graph), choice_(choice), penalty_(1 + 2 * magnitude(graph)) {
    for (const Table& table : graph.tables) stride_.push_back(strides_of(graph, table.scope));
    neighbours_.resize(graph.states.size());
    for (const Table& table : graph.tables)
      for (int v : table.scope)
        for (int w : table.scope)
          if (v < w) neighbours_[v].push_back(w);
    for (auto& list : neighbours_) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
  }

  bool sweep() {
    bool better = false;
    for (int v = 0; v < graph_.variables(); ++v) better |= move_one(v);
    for (int v = 0; v < graph_.variables(); ++v)
      for (int w : neighbours_[v]) better |= move_two(v, w);
    return better;
  }

 private:
  double finite(double cost) const { return cost < penalty_ ? cost : penalty_; }

  // Cost of each state of v, the others as chosen: of its unary and its tables, without those that also speak of `except`.
  void row(int v, int except, std::vector<double>& cost) const {
    cost.assign(graph_.size(v), 0.0);
    for (int s = 0; s < graph_.size(v); ++s) cost[s] = finite(graph_.unary[v][s]);
    for (Use use : graph_.uses[v]) {
      const Table& table = graph_.tables[use.table];
      const auto& stride = stride_[use.table];
      std::size_t at = 0;
      bool skip = false;
      for (std::size_t a = 0; a < stride.size(); ++a) {
        if (table.scope[a] != v) at += choice_[table.scope[a]] * stride[a];
        skip |= table.scope[a] == except;
      }
      if (skip) continue;
      const double* cell = table.cells().data() + at;
      for (int s = 0; s < graph_.size(v); ++s) cost[s] += finite(cell[s * stride[use.axis]]);
    }
  }

  // A gain within rounding is none, or two equal choices could take turns for ever.
  bool gains(double before, double after) const { return after < before - 1e-13 * penalty_; }

  bool move_one(int v) {
    row(v, -1, first_);
    int best = static_cast<int>(std::min_element(first_.begin(), first_.end()) - first_.begin());
    if (!gains(first_[choice_[v]], first_[best])) return false;
    choice_[v] = best;
    return true;
  }

  bool move_two(int v, int w) {
    if (graph_.size(v) == 1 || graph_.size(w) == 1) return false;
    row(v, w, first_);  // what v pays apart from w; the rest is in w's row
    int before_v = choice_[v], best_v = before_v, best_w = choice_[w];
    double before = 0, best = 0;
    for (int i = 0; i < graph_.size(v); ++i) {  // the present state comes first, to compare with
      int s = i == 0 ? before_v : i - (i <= before_v);
      choice_[v] = s;
      row(w, -1, second_);
      auto least = std::min_element(second_.begin(), second_.end());
      double total = first_[s] + *least;
      if (i == 0) before = best = first_[s] + second_[choice_[w]];
      if (!gains(best, total)) continue;
      best = total;
      best_v = s;
      best_w = static_cast<int>(least - second_.begin());
    }
    choice_[v] = best_v;
    choice_[w] = best_w;
    return gains(before, best);
  }

  const CostGraph& graph_;
  std::vector<int>& choice_;
  double penalty_;
  std::vector<std::vector<std::size_t>> stride_;
  std::vector<std::vector<int>> neighbours_;  // of higher number
  std::vector<double> first_, second_;
};
}  // namespace

void improve(const CostGraph& graph, std::vector<int>& choice, int sweeps) {
  Descent descent(graph, choice);
  while (sweeps-- > 0 && descent.sweep()) continue;
}

}  // namespace karez::solve
