// Building, merging, pruning and folding of cost graphs.
#include "solve/cost_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "solve/sweep.h"

namespace karez::solve {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr std::size_t dominance_cells = std::size_t{1} << 26;  // cells compared by mark_dominated before it stops looking
constexpr std::size_t samples = 16;                            // cells per table that refute most candidates at once

using Steps = std::vector<std::vector<std::size_t>>;

std::vector<std::size_t> multiples(std::size_t stride, int count) {
  std::vector<std::size_t> out(count);
  for (int i = 0; i < count; ++i) out[i] = stride * i;
  return out;
}

void index_uses(CostGraph& graph) {
  graph.uses.assign(graph.states.size(), {});
  for (int t = 0; t < static_cast<int>(graph.tables.size()); ++t)
    for (int a = 0; a < static_cast<int>(graph.tables[t].scope.size()); ++a) graph.uses[graph.tables[t].scope[a]].push_back({t, a});
}

void own_cells(Table& table) {
  if (table.own.empty()) table.own.assign(table.borrowed.begin(), table.borrowed.end());
  table.borrowed = {};
}

// Adds a table to one whose scope contains its own.
void add_to_host(const CostGraph& graph, Table& host, const Table& guest) {
  own_cells(host);
  std::vector<std::size_t> stride = strides_of(graph, guest.scope);
  Steps step;
  for (int v : host.scope) {
    auto at = std::lower_bound(guest.scope.begin(), guest.scope.end(), v);
    bool shared = at != guest.scope.end() && *at == v;
    step.push_back(multiples(shared ? stride[at - guest.scope.begin()] : 0, graph.size(v)));
  }
  add_gathered(host.own, guest.cells(), step);
}

// Moves constants and unary tables to their places, then merges each table into the smallest one whose scope contains its scope.
// Fewer and larger tables bound better: a table is minimised as one.
void merge(CostGraph& graph) {
  std::vector<Table> tables;
  for (Table& table : graph.tables) {
    if (table.scope.empty()) {
      graph.constant += table.cells()[0];
    } else if (table.scope.size() == 1) {
      auto& unary = graph.unary[table.scope[0]];
      for (std::size_t s = 0; s < unary.size(); ++s) unary[s] += table.cells()[s];
    } else {
      tables.push_back(std::move(table));
    }
  }
  graph.tables = std::move(tables);
  index_uses(graph);
  std::vector<int> order(graph.tables.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return graph.tables[a].scope.size() < graph.tables[b].scope.size(); });
  std::vector<char> gone(graph.tables.size(), 0);
  for (int guest : order) {  // small scopes first, so that a chain of subsets ends in its largest
    const auto& scope = graph.tables[guest].scope;
    int host = -1;
    for (Use use : graph.uses[scope[0]]) {
      const auto& wider = graph.tables[use.table].scope;
      if (use.table == guest || gone[use.table] || !std::includes(wider.begin(), wider.end(), scope.begin(), scope.end())) continue;
      if (host < 0 || cell_count(graph, wider) < cell_count(graph, graph.tables[host].scope)) host = use.table;
    }
    if (host < 0) continue;
    add_to_host(graph, graph.tables[host], graph.tables[guest]);
    graph.tables[guest] = {};
    gone[guest] = 1;
  }
  std::erase_if(graph.tables, [](const Table& table) { return table.scope.empty(); });
  index_uses(graph);
}

// A factor as a table: scope ascending and without repeats.
Table as_table(const MinSumProblem& problem, const Factor& factor) {
  Table table{.scope = factor.scope, .own = {}, .borrowed = factor.cost};
  std::sort(table.scope.begin(), table.scope.end());
  table.scope.erase(std::unique(table.scope.begin(), table.scope.end()), table.scope.end());
  if (table.scope == factor.scope) return table;
  std::vector<std::size_t> stride(problem.domain.size(), 0);
  std::size_t step = 1, count = 1;
  for (std::size_t a = factor.scope.size(); a-- > 0; step *= problem.domain[factor.scope[a]]) stride[factor.scope[a]] += step;
  Steps steps;
  for (int v : table.scope) {
    steps.push_back(multiples(stride[v], problem.domain[v]));
    count *= problem.domain[v];
  }
  table.own.assign(count, 0);
  add_gathered(table.own, factor.cost, steps);
  table.borrowed = {};
  return table;
}

void check(const MinSumProblem& problem) {
  for (std::size_t v = 0; v < problem.domain.size(); ++v)
    require(problem.domain[v] > 0, "min_sum: variable ", v, " has domain ", problem.domain[v], ", needs at least one state");
  for (std::size_t f = 0; f < problem.factors.size(); ++f) {
    const Factor& factor = problem.factors[f];
    std::int64_t cells = 1;
    for (int v : factor.scope) {
      require(v >= 0 && v < static_cast<int>(problem.domain.size()), "min_sum: factor ", f, " names variable ", v, " of ", problem.domain.size());
      cells = checked_mul(cells, problem.domain[v]);
    }
    require(static_cast<std::int64_t>(factor.cost.size()) == cells, "min_sum: factor ", f, " has ", factor.cost.size(), " costs, its scope ", cells);
    for (double c : factor.cost) require(!(std::isnan(c) || c == -inf), "min_sum: factor ", f, " holds the cost ", c);
  }
}

// A table as seen from one of its variables: the cells of state s stand at i / inner * block + s * inner + i % inner for i < others.
struct View {
  const double* cells;
  std::size_t inner, block, others;
};

std::vector<View> views_of(const CostGraph& graph, int variable) {
  std::vector<View> views;
  for (Use use : graph.uses[variable]) {
    const Table& table = graph.tables[use.table];
    std::size_t inner = strides_of(graph, table.scope)[use.axis], size = graph.size(variable);
    views.push_back({table.cells().data(), inner, inner * size, table.cells().size() / size});
  }
  return views;
}

// Is `keep` never dearer than `lose`, whatever the other variables do? Sums over the variable's tables the worst excess (Goldstein's
// criterion for dead ends). A sample of the cells refutes most pairs.
bool replaces(std::span<const double> unary, const std::vector<View>& views, int keep, int lose, bool sampled, std::size_t& budget) {
  double excess = unary[keep] - unary[lose];
  for (const View& view : views) {
    std::size_t jump = sampled ? view.others / samples + 1 : 1;
    double worst = -inf;
    for (std::size_t i = 0; i < view.others; i += jump) {
      const double* at = view.cells + i / view.inner * view.block + i % view.inner;
      double lost = at[lose * view.inner];
      if (lost < inf) worst = std::max(worst, at[keep * view.inner] - lost);
      if (worst == inf) return false;
    }
    budget -= std::min(budget, view.others / jump + 1);
    if (worst == -inf) return true;  // a sample: nothing finite seen, so look at all; all: `lose` is forbidden everywhere
    excess += worst;
  }
  return excess <= 0;
}
}  // namespace

std::size_t cell_count(const CostGraph& graph, std::span<const int> scope) {
  std::size_t cells = 1;
  for (int v : scope) cells *= graph.states[v].size();
  return cells;
}

std::vector<std::size_t> strides_of(const CostGraph& graph, std::span<const int> scope) {
  std::vector<std::size_t> stride(scope.size(), 1);
  for (std::size_t a = scope.size(); a-- > 1;) stride[a - 1] = stride[a] * graph.size(scope[a]);
  return stride;
}

void add_gathered(std::span<double> out, std::span<const double> cells, const Steps& step) {
  if (step.empty()) {
    out[0] += cells[0];
    return;
  }
  std::size_t axes = step.size();
  std::vector<std::size_t> index(axes, 0), from(axes, 0);  // from[a]: offset of the axes before a
  const auto& last = step.back();
  std::size_t moved = 0;  // the outermost axis whose index changed
  for (std::size_t at = 0; at < out.size(); at += last.size()) {
    for (std::size_t a = moved; a + 1 < axes; ++a) from[a + 1] = from[a] + step[a][index[a]];
    const double* row = cells.data() + from[axes - 1];
    for (std::size_t i = 0; i < last.size(); ++i) out[at + i] += row[last[i]];
    for (moved = axes - 1; moved-- > 0;) {
      if (++index[moved] < step[moved].size()) break;
      index[moved] = 0;
    }
  }
}

CostGraph cost_graph(const MinSumProblem& problem) {
  check(problem);
  CostGraph graph;
  for (int size : problem.domain) {
    graph.states.emplace_back(size);
    std::iota(graph.states.back().begin(), graph.states.back().end(), 0);
    graph.unary.emplace_back(size, 0.0);
  }
  for (const Factor& factor : problem.factors) graph.tables.push_back(as_table(problem, factor));
  merge(graph);
  return graph;
}

Marks no_marks(const CostGraph& graph) {
  Marks marks;
  for (const auto& states : graph.states) marks.emplace_back(states.size(), 0);
  return marks;
}

bool any(const Marks& marks) {
  return std::any_of(marks.begin(), marks.end(), [](const auto& m) { return std::find(m.begin(), m.end(), 1) != m.end(); });
}

bool propagate(const CostGraph& graph, Marks& dead) {
  if (graph.constant == inf) return false;
  std::vector<std::vector<double>> block;  // +inf for dead states, 0 for others
  for (int v = 0; v < graph.variables(); ++v) {
    block.emplace_back(graph.size(v), 0.0);
    for (int s = 0; s < graph.size(v); ++s)
      if (graph.unary[v][s] == inf || dead[v][s]) block[v][s] = inf, dead[v][s] = 1;
  }
  std::vector<char> look(graph.tables.size());
  for (std::size_t t = 0; t < look.size(); ++t) {
    auto cells = graph.tables[t].cells();
    look[t] = std::find(cells.begin(), cells.end(), inf) != cells.end();
  }
  const std::vector<char> restrictive = look;  // a table without +inf allows everything while its variables have a state
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t t = 0; t < look.size(); ++t) {
      if (!look[t]) continue;
      look[t] = 0;
      const Table& table = graph.tables[t];
      Axes axes;
      for (int v : table.scope) axes.push_back({graph.size(v), block[v].data()});
      for (std::size_t a = 0; a < axes.size(); ++a) {
        int v = table.scope[a];
        std::vector<double> least(graph.size(v), inf);
        min_marginal(table.cells(), axes, a, least);
        for (int s = 0; s < graph.size(v); ++s) {
          if (least[s] < inf || dead[v][s]) continue;
          dead[v][s] = 1;
          block[v][s] = inf;
          changed = true;
          for (Use use : graph.uses[v]) look[use.table] = restrictive[use.table];
        }
      }
    }
  }
  return std::all_of(dead.begin(), dead.end(), [](const auto& m) { return std::find(m.begin(), m.end(), 0) != m.end(); });
}

void mark_dominated(const CostGraph& graph, Marks& dead) {
  std::size_t budget = dominance_cells;
  for (int v = 0; v < graph.variables(); ++v) {
    const std::vector<View> views = views_of(graph, v);
    const auto& unary = graph.unary[v];
    for (int lose = graph.size(v); lose-- > 0;)  // from the back: of two equal states the first stays
      for (int keep = 0; keep < graph.size(v) && !dead[v][lose]; ++keep) {
        if (keep == lose || dead[v][keep] || budget == 0) continue;
        if (replaces(unary, views, keep, lose, true, budget) && replaces(unary, views, keep, lose, false, budget)) dead[v][lose] = 1;
      }
  }
}

void drop(CostGraph& graph, const Marks& dead) {
  std::vector<std::vector<int>> kept(graph.states.size());
  for (int v = 0; v < graph.variables(); ++v)
    for (int s = 0; s < graph.size(v); ++s)
      if (!dead[v][s]) kept[v].push_back(s);
  for (Table& table : graph.tables) {
    std::size_t count = 1;
    Steps step;
    std::vector<std::size_t> stride = strides_of(graph, table.scope);
    for (std::size_t a = 0; a < table.scope.size(); ++a) {
      step.emplace_back();
      for (int s : kept[table.scope[a]]) step.back().push_back(s * stride[a]);
      count *= step.back().size();
    }
    if (count == table.cells().size()) continue;
    std::vector<double> cells(count, 0.0);
    add_gathered(cells, table.cells(), step);
    table.own = std::move(cells);
    table.borrowed = {};
  }
  for (int v = 0; v < graph.variables(); ++v)
    for (std::size_t i = 0; i < kept[v].size(); ++i) {
      graph.states[v][i] = graph.states[v][kept[v][i]];
      graph.unary[v][i] = graph.unary[v][kept[v][i]];
    }
  for (int v = 0; v < graph.variables(); ++v) {
    graph.states[v].resize(kept[v].size());
    graph.unary[v].resize(kept[v].size());
  }
}

CostGraph folded(const CostGraph& graph) {
  CostGraph out;
  out.states = graph.states;
  out.unary = graph.unary;
  out.constant = graph.constant;
  for (const Table& table : graph.tables) {  // an axis of one state can leave without moving a cell
    Table& smaller = out.tables.emplace_back(Table{.scope = {}, .own = {}, .borrowed = table.cells()});
    for (int v : table.scope)
      if (graph.size(v) > 1) smaller.scope.push_back(v);
  }
  merge(out);
  return out;
}

double cost_of(const CostGraph& graph, std::span<const int> choice) {
  double cost = graph.constant;
  for (int v = 0; v < graph.variables(); ++v) cost += graph.unary[v][choice[v]];
  for (const Table& table : graph.tables) {
    std::size_t at = 0;
    for (int v : table.scope) at = at * graph.size(v) + choice[v];
    cost += table.cells()[at];
  }
  return cost;
}

double magnitude(const CostGraph& graph) {
  auto largest = [](std::span<const double> cells) {
    double most = 0;
    for (double c : cells)
      if (c < inf) most = std::max(most, std::abs(c));
    return most;
  };
  double sum = std::abs(graph.constant);
  for (const auto& unary : graph.unary) sum += largest(unary);
  for (const Table& table : graph.tables) sum += largest(table.cells());
  return sum;
}

}  // namespace karez::solve
