// Construction of cost graphs, and sums over them.
#include "karez/solve/cost_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "karez/base/error.h"

namespace karez::solve {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();

void check(const MinSumProblem& problem) {
  for (std::size_t v = 0; v < problem.domain.size(); ++v)
    require(problem.domain[v] > 0, "min_sum: variable ", v, " has domain ", problem.domain[v],
            "; it must have at least one state");
  std::map<const CostCells*, bool> seen;
  for (std::size_t f = 0; f < problem.factors.size(); ++f) {
    const Factor& factor = problem.factors[f];
    require(factor.cells != nullptr, "min_sum: factor ", f, " has no cells");
    const CostCells& cells = *factor.cells;
    require(cells.classes.size() == factor.scope.size(), "min_sum: factor ", f, " has classes for ",
            cells.classes.size(), " axes, but the size of its scope is ", factor.scope.size());
    std::int64_t count = 1;
    for (std::size_t a = 0; a < factor.scope.size(); ++a) {
      const int v = factor.scope[a];
      require(v >= 0 && v < static_cast<int>(problem.domain.size()), "min_sum: factor ", f, " names variable ", v,
              ", but the number of variables is ", problem.domain.size());
      const auto& of = cells.classes[a];
      if (of.empty()) {
        count = checked_mul(count, problem.domain[v]);
        continue;
      }
      require(static_cast<int>(of.size()) == problem.domain[v], "min_sum: factor ", f, " has classes for ", of.size(),
              " states of variable ", v, ", which has ", problem.domain[v]);
      std::vector<char> there(of.size(), 0);
      int most = -1;
      for (int c : of) {
        require(c >= 0 && c < static_cast<int>(of.size()), "min_sum: factor ", f, " has class ", c,
                " for a variable of ", of.size(), " states");
        there[static_cast<std::size_t>(c)] = 1;
        most = std::max(most, c);
      }
      require(std::count(there.begin(), there.end(), 1) == most + 1, "min_sum: factor ", f,
              " skips a class number of variable ", v);
      count = checked_mul(count, most + 1);
    }
    if (!cells.implied_class.empty()) {
      require(cells.cost.empty() && !factor.scope.empty(), "min_sum: factor ", f,
              " has implied classes, which require a scope and exclude costs");
      const int last = factor.scope.back();
      const auto& of = cells.classes.back();
      const int classes = of.empty() ? problem.domain[last] : 1 + *std::max_element(of.begin(), of.end());
      require(static_cast<std::int64_t>(cells.implied_class.size()) * classes == count, "min_sum: factor ", f,
              " has implied classes for ", cells.implied_class.size(), " joint classes, its scope has ",
              count / classes);
      for (int c : cells.implied_class)
        require(c >= -1 && c < classes, "min_sum: factor ", f, " has implied class ", c,
                ", but the number of classes is ", classes);
      continue;
    }
    require(static_cast<std::int64_t>(cells.cost.size()) == count, "min_sum: factor ", f, " has ", cells.cost.size(),
            " costs, but the number of cells in its scope is ", count);
    if (!seen.try_emplace(&cells, true).second) continue;
    for (double c : cells.cost) require(!(std::isnan(c) || c == -inf), "min_sum: factor ", f, " has the cost ", c);
  }
}

// A factor's axes in the order of their variables; axes of the same variable are merged and axes of one class removed.
struct ArrangedFactor {
  Table table;
  std::vector<int> sizes;
  AxisOffsets step;
  bool as_given = true;    // the cells keep their order
  std::vector<int> given;  // the factor's own sizes
};

ArrangedFactor arrange(CostGraph& graph, const Factor& factor) {
  ArrangedFactor made;
  const CostCells& cells = *factor.cells;
  std::vector<std::vector<int>> class_of;
  std::vector<int> sizes;
  for (std::size_t a = 0; a < factor.scope.size(); ++a) {
    class_of.push_back(cells.classes[a]);
    if (class_of.back().empty()) {
      class_of.back().resize(static_cast<std::size_t>(graph.states[static_cast<std::size_t>(factor.scope[a])]));
      std::iota(class_of.back().begin(), class_of.back().end(), 0);
    }
    sizes.push_back(1 + *std::max_element(class_of.back().begin(), class_of.back().end()));
  }
  const std::vector<std::size_t> stride = strides_of(sizes);
  made.given = sizes;
  std::vector<int> order = factor.scope;
  std::sort(order.begin(), order.end());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  std::vector<std::size_t> place;
  for (int v : order) {
    int partition = -1;
    for (std::size_t a = 0; a < factor.scope.size(); ++a)
      if (factor.scope[a] == v) {
        const int one = graph.partitions.number(class_of[a]);
        partition = partition < 0 ? one : graph.partitions.common_refinement(partition, one);
        place.push_back(a);
      }
    const StatePartition& joint = graph.partitions[partition];
    if (joint.count() == 1) continue;
    made.table.scope.push_back(v);
    made.table.partitions.push_back(partition);
    made.sizes.push_back(joint.count());
    auto& step = made.step.emplace_back(joint.first.size(), 0);
    for (std::size_t c = 0; c < step.size(); ++c) {
      for (std::size_t a = 0; a < factor.scope.size(); ++a)
        if (factor.scope[a] == v)
          step[c] += stride[a] * static_cast<std::size_t>(class_of[a][static_cast<std::size_t>(joint.first[c])]);
    }
  }
  const std::vector<std::size_t> straight = strides_of(made.sizes);
  for (std::size_t a = 0; a < made.step.size(); ++a)
    for (std::size_t c = 0; c < made.step[a].size(); ++c) made.as_given &= made.step[a][c] == c * straight[a];
  return made;
}
}  // namespace

int StatePartitions::number(const std::vector<int>& class_of) {
  StatePartition made;
  std::vector<int> seen(class_of.size(), -1);
  for (std::size_t s = 0; s < class_of.size(); ++s) {
    int& at = seen[static_cast<std::size_t>(class_of[s])];
    if (at < 0) {
      at = made.count();
      made.first.push_back(static_cast<int>(s));
    }
    made.of.push_back(at);
  }
  auto [at, fresh] = number_of_.try_emplace(made.of, static_cast<int>(all_.size()));
  if (fresh) all_.push_back(std::move(made));
  return at->second;
}

int StatePartitions::finest(int states) {
  std::vector<int> each(static_cast<std::size_t>(states));
  std::iota(each.begin(), each.end(), 0);
  return number(each);
}

int StatePartitions::common_refinement(int a, int b) {
  if (a == b) return a;
  auto [at, fresh] = refinements_.try_emplace({std::min(a, b), std::max(a, b)}, -1);
  if (!fresh) return at->second;
  const StatePartition &one = (*this)[a], &other = (*this)[b];
  std::map<std::pair<int, int>, int> joint;
  std::vector<int> class_of;
  for (std::size_t s = 0; s < one.of.size(); ++s)
    class_of.push_back(joint.try_emplace({one.of[s], other.of[s]}, static_cast<int>(joint.size())).first->second);
  return at->second = number(class_of);
}

std::vector<double> dense_cells(const CostArray& cost_array) {
  const auto last = static_cast<std::size_t>(cost_array.sizes.back());
  std::vector<double> cells(cost_array.implied_class.size() * last, inf);
  for (std::size_t i = 0; i < cost_array.implied_class.size(); ++i)
    if (cost_array.implied_class[i] >= 0) cells[i * last + static_cast<std::size_t>(cost_array.implied_class[i])] = 0;
  return cells;
}

std::vector<std::size_t> strides_of(std::span<const int> sizes) {
  std::vector<std::size_t> stride(sizes.size(), 1);
  for (std::size_t a = sizes.size(); a-- > 1;) stride[a - 1] = stride[a] * static_cast<std::size_t>(sizes[a]);
  return stride;
}

std::size_t cell_count(std::span<const int> sizes) {
  std::size_t cells = 1;
  for (int size : sizes) cells *= static_cast<std::size_t>(size);
  return cells;
}

void add_gathered(std::span<double> out, std::span<const double> cells, const AxisOffsets& step) {
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

namespace {
// The cost array of a factor with its axes arranged.
CostArray cost_array_of(const CostCells& cells, const ArrangedFactor& made) {
  CostArray cost_array{made.sizes, {}, cells.cost, {}};
  if (cells.implied_class.empty()) {
    if (made.as_given) return cost_array;
    cost_array.own.assign(cell_count(made.sizes), 0.0);
    add_gathered(cost_array.own, cells.cost, made.step);
    cost_array.borrowed = {};
    return cost_array;
  }
  cost_array.borrowed = {};
  if (made.as_given && made.sizes.size() == made.given.size()) {
    cost_array.implied_class = cells.implied_class;
    return cost_array;
  }
  const std::vector<double> dense = dense_cells({made.given, {}, {}, cells.implied_class});
  cost_array.own.assign(cell_count(made.sizes), 0.0);
  add_gathered(cost_array.own, dense, made.step);
  return cost_array;
}
}  // namespace

CostGraph cost_graph(const MinSumProblem& problem) {
  check(problem);
  CostGraph graph;
  graph.states = problem.domain;
  std::map<std::pair<const CostCells*, std::vector<int>>, int> known;  // cost array by cells and order of axes
  for (const Factor& factor : problem.factors) {
    ArrangedFactor made = arrange(graph, factor);
    if (made.table.scope.empty()) {
      graph.constant += factor.cells->implied_class.empty()  ? factor.cells->cost[0]
                        : factor.cells->implied_class[0] < 0 ? inf
                                                             : 0;
      continue;
    }
    // The permutation of the axes: with the cells' own classes, it determines where each cell goes.
    std::vector<int> turn = made.sizes;
    for (std::size_t a = 0; a < factor.scope.size(); ++a) {
      auto at = std::lower_bound(made.table.scope.begin(), made.table.scope.end(), factor.scope[a]);
      turn.push_back(at != made.table.scope.end() && *at == factor.scope[a]
                         ? static_cast<int>(at - made.table.scope.begin())
                         : -1);
    }
    auto [at, fresh] = known.try_emplace({factor.cells.get(), turn}, static_cast<int>(graph.cost_arrays.size()));
    if (fresh) graph.cost_arrays.push_back(cost_array_of(*factor.cells, made));
    made.table.cost_array = at->second;
    graph.tables.push_back(std::move(made.table));
  }
  return graph;
}

double cell_of(const CostGraph& graph, const Table& table, std::span<const int> choice) {
  const CostArray& cost_array = graph.cost_arrays[static_cast<std::size_t>(table.cost_array)];
  std::size_t at = 0;
  for (std::size_t a = 0; a < table.scope.size(); ++a) {
    const int state = choice[static_cast<std::size_t>(table.scope[a])];
    at = at * static_cast<std::size_t>(cost_array.sizes[a]) +
         static_cast<std::size_t>(graph.partitions[table.partitions[a]].of[static_cast<std::size_t>(state)]);
  }
  if (cost_array.implied_class.empty()) return cost_array.cells()[at];
  const auto last = static_cast<std::size_t>(cost_array.sizes.back());
  return cost_array.implied_class[at / last] == static_cast<int>(at % last) ? 0 : inf;
}

double cost_of(const CostGraph& graph, std::span<const int> choice) {
  double cost = graph.constant;
  for (const Table& table : graph.tables) cost += cell_of(graph, table, choice);
  return cost;
}

double magnitude(const CostGraph& graph) {
  std::vector<double> largest;
  for (const CostArray& cost_array : graph.cost_arrays) {
    double most = 0;
    for (double c : cost_array.cells())
      if (c < inf) most = std::max(most, std::abs(c));
    largest.push_back(most);
  }
  double sum = std::abs(graph.constant);
  for (const Table& table : graph.tables) sum += largest[static_cast<std::size_t>(table.cost_array)];
  return sum;
}

}  // namespace karez::solve
