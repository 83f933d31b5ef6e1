// Sequential reweighted message passing (Kolmogorov, "A new look at reweighted message passing", 2015) with single-variable separators.
// Each pass collects at a variable what its tables know about it, then hands equal shares on to the tables that reach further; on a
// chain one pass is dynamic programming and the bound is exact. The bound never falls.
#include "solve/dual_bound.h"

#include <algorithm>
#include <limits>

#include "solve/sweep.h"

namespace karez::solve {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();

Axes axes_of(const CostGraph& graph, const Reweighting& r, int table) {
  Axes axes;
  const auto& scope = graph.tables[table].scope;
  for (std::size_t a = 0; a < scope.size(); ++a) axes.push_back({graph.size(scope[a]), r.message[table][a].data()});
  return axes;
}

// Does the table have variables after / before this axis in the direction of the walk? Scopes are ascending.
bool reaches_on(const CostGraph& graph, Use use, bool ascending) {
  int last = static_cast<int>(graph.tables[use.table].scope.size()) - 1;
  return ascending ? use.axis < last : use.axis > 0;
}
}  // namespace

Reweighting reweighting(const CostGraph& graph) {
  Reweighting r;
  r.node = graph.unary;
  r.bound = graph.constant;
  for (const Table& table : graph.tables) {
    r.message.emplace_back();
    for (int v : table.scope) r.message.back().emplace_back(graph.size(v), 0.0);
  }
  return r;
}

std::size_t pass_cells(const CostGraph& graph) {
  std::size_t cells = 0;
  for (const Table& table : graph.tables) cells += table.cells().size() * (table.scope.size() - 1);
  return cells;
}

void pass(const CostGraph& graph, Reweighting& r, bool ascending, double ceiling, Marks& dead) {
  std::vector<double> least;
  int count = graph.variables();
  for (int i = 0; i < count; ++i) {
    int v = ascending ? i : count - 1 - i;
    auto& node = r.node[v];
    std::size_t size = node.size();
    int in = 0, out = 0;
    for (Use use : graph.uses[v]) {
      bool from_before = reaches_on(graph, use, !ascending);
      in += from_before;
      out += reaches_on(graph, use, ascending);
      if (!from_before && !r.fresh) continue;  // untouched since the opposite pass asked it
      least.resize(size);
      min_marginal(graph.tables[use.table].cells(), axes_of(graph, r, use.table), use.axis, least);
      auto& message = r.message[use.table][use.axis];
      for (std::size_t s = 0; s < size; ++s) {
        message[s] -= least[s];
        node[s] += least[s];
      }
    }
    double floor = *std::min_element(node.begin(), node.end());
    r.bound += floor;
    for (double& cost : node) cost -= floor;
    if (!r.fresh)  // all other tables and variables are at least zero now, so bound + node[s] bounds every choice with this state
      for (std::size_t s = 0; s < size; ++s)
        if (r.bound + node[s] > ceiling) dead[v][s] = 1;
    if (out == 0) continue;
    double share = 1.0 / std::max(in, out);
    for (Use use : graph.uses[v]) {
      if (!reaches_on(graph, use, ascending)) continue;
      auto& message = r.message[use.table][use.axis];
      for (std::size_t s = 0; s < size; ++s) message[s] += node[s] * share;
    }
    for (double& cost : node) cost -= cost * share * out;
  }
  r.fresh = false;
}

std::vector<int> round_choice(const CostGraph& graph, const Reweighting& r, bool ascending) {
  int count = graph.variables();
  std::vector<int> choice(count, -1);
  for (int i = 0; i < count; ++i) {
    int v = ascending ? i : count - 1 - i;
    std::vector<double> cost = r.node[v], least(cost.size());
    for (Use use : graph.uses[v]) {
      if (!reaches_on(graph, use, !ascending)) continue;  // none of its variables is chosen, and its least is zero for every state
      Axes axes = axes_of(graph, r, use.table);
      for (std::size_t a = 0; a < axes.size(); ++a) axes[a].fixed = choice[graph.tables[use.table].scope[a]];
      min_marginal(graph.tables[use.table].cells(), axes, use.axis, least);
      for (std::size_t s = 0; s < cost.size(); ++s) cost[s] += least[s];
    }
    choice[v] = static_cast<int>(std::min_element(cost.begin(), cost.end()) - cost.begin());
  }
  return choice;
}

void drop(Reweighting& r, const CostGraph& graph, const Marks& dead) {
  auto keep = [&](std::vector<double>& values, int v) {
    std::size_t kept = 0;
    for (std::size_t s = 0; s < values.size(); ++s)
      if (!dead[v][s]) values[kept++] = values[s];
    values.resize(kept);
  };
  for (int v = 0; v < graph.variables(); ++v) keep(r.node[v], v);
  for (std::size_t t = 0; t < graph.tables.size(); ++t)
    for (std::size_t a = 0; a < graph.tables[t].scope.size(); ++a) keep(r.message[t][a], graph.tables[t].scope[a]);
  r.fresh = true;
}

CostGraph reweighted(const CostGraph& graph, const Reweighting& r) {
  CostGraph out;
  out.states = graph.states;
  out.unary = graph.unary;
  out.uses = graph.uses;
  out.constant = graph.constant;
  for (int t = 0; t < static_cast<int>(graph.tables.size()); ++t) {
    const Table& table = graph.tables[t];
    Table& changed = out.tables.emplace_back(Table{.scope = table.scope, .own = {}, .borrowed = {}});
    changed.own.reserve(table.cells().size());
    Axes axes = axes_of(graph, r, t);
    for_each_row(table.cells(), axes, [&](const int*, const double* row, double base) {
      for (int i = 0; i < axes.back().size; ++i) changed.own.push_back(row[i] + (base + axes.back().add[i]));
    });
    for (std::size_t a = 0; a < table.scope.size(); ++a) {
      auto& unary = out.unary[table.scope[a]];
      for (std::size_t s = 0; s < unary.size(); ++s) unary[s] -= r.message[t][a][s];
    }
  }
  return out;
}

double least_sum(const CostGraph& graph) {
  double sum = graph.constant;
  for (const auto& unary : graph.unary) sum += *std::min_element(unary.begin(), unary.end());
  for (const Table& table : graph.tables) sum += *std::min_element(table.cells().begin(), table.cells().end());
  return sum;
}

}  // namespace karez::solve
