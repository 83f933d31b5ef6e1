// Builds cost graphs and evaluates choices in them.
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
              " states of variable ", v, ", which has ", problem.domain[v], " states");
      std::vector<char> present(of.size(), 0);
      int max_class = -1;
      for (int c : of) {
        require(c >= 0 && c < static_cast<int>(of.size()), "min_sum: factor ", f, " has class ", c, " for variable ", v,
                ", which has ", of.size(), " states");
        present[static_cast<std::size_t>(c)] = 1;
        max_class = std::max(max_class, c);
      }
      require(std::count(present.begin(), present.end(), 1) == max_class + 1, "min_sum: factor ", f,
              " skips a class number of variable ", v);
      count = checked_mul(count, max_class + 1);
    }
    if (!cells.implied_class.empty()) {
      require(cells.cost.empty() && !factor.scope.empty(), "min_sum: factor ", f,
              " has implied classes, which require a scope and exclude costs");
      const int last = factor.scope.back();
      const auto& of = cells.classes.back();
      const int classes = of.empty() ? problem.domain[last] : 1 + *std::max_element(of.begin(), of.end());
      require(static_cast<std::int64_t>(cells.implied_class.size()) * classes == count, "min_sum: factor ", f,
              " has implied classes for ", cells.implied_class.size(), " joint classes, but its scope has ",
              count / classes);
      for (int c : cells.implied_class)
        require(c >= -1 && c < classes, "min_sum: factor ", f, " has implied class ", c,
                ", but the number of classes is ", classes);
      continue;
    }
    require(static_cast<std::int64_t>(cells.cost.size()) == count, "min_sum: factor ", f, " has ", cells.cost.size(),
            " costs, but the number of cells in its scope is ", count);
    if (!seen.try_emplace(&cells, true).second) continue;
    for (double c : cells.cost)
      require(!(std::isnan(c) || c == -inf), "min_sum: factor ", f, " has the cost ", c,
              "; a cost must be finite or +inf");
  }
}

// A factor with its axes sorted by variable. Axes of the same variable are merged, and axes with one class are removed.
struct ArrangedFactor {
  Table table;
  std::vector<int> sizes;
  AxisOffsets step;
  bool keeps_order = true;        // true if the cells keep their order
  std::vector<int> factor_sizes;  // the sizes of the factor's original axes
};

ArrangedFactor arrange(CostGraph& graph, const Factor& factor) {
  ArrangedFactor arranged;
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
  arranged.factor_sizes = sizes;
  std::vector<int> order = factor.scope;
  std::sort(order.begin(), order.end());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  std::vector<std::size_t> place;
  for (int v : order) {
    int partition = -1;
    for (std::size_t a = 0; a < factor.scope.size(); ++a)
      if (factor.scope[a] == v) {
        const int class_partition = graph.partitions.number(class_of[a]);
        partition = partition < 0 ? class_partition : graph.partitions.common_refinement(partition, class_partition);
        place.push_back(a);
      }
    const StatePartition& joint = graph.partitions[partition];
    if (joint.count() == 1) continue;
    arranged.table.scope.push_back(v);
    arranged.table.partitions.push_back(partition);
    arranged.sizes.push_back(joint.count());
    auto& step = arranged.step.emplace_back(joint.first.size(), 0);
    for (std::size_t c = 0; c < step.size(); ++c) {
      for (std::size_t a = 0; a < factor.scope.size(); ++a)
        if (factor.scope[a] == v)
          step[c] += stride[a] * static_cast<std::size_t>(class_of[a][static_cast<std::size_t>(joint.first[c])]);
    }
  }
  const std::vector<std::size_t> row_major = strides_of(arranged.sizes);
  for (std::size_t a = 0; a < arranged.step.size(); ++a)
    for (std::size_t c = 0; c < arranged.step[a].size(); ++c)
      arranged.keeps_order &= arranged.step[a][c] == c * row_major[a];
  return arranged;
}
}  // namespace

int StatePartitions::number(const std::vector<int>& class_of) {
  StatePartition partition;
  std::vector<int> seen(class_of.size(), -1);
  for (std::size_t s = 0; s < class_of.size(); ++s) {
    int& number = seen[static_cast<std::size_t>(class_of[s])];
    if (number < 0) {
      number = partition.count();
      partition.first.push_back(static_cast<int>(s));
    }
    partition.of.push_back(number);
  }
  auto [entry, inserted] = number_of_.try_emplace(partition.of, static_cast<int>(all_.size()));
  if (inserted) all_.push_back(std::move(partition));
  return entry->second;
}

int StatePartitions::common_refinement(int a, int b) {
  if (a == b) return a;
  auto [entry, inserted] = refinements_.try_emplace({std::min(a, b), std::max(a, b)}, -1);
  if (!inserted) return entry->second;
  const StatePartition &class_partition = (*this)[a], &other_partition = (*this)[b];
  std::map<std::pair<int, int>, int> joint;
  std::vector<int> class_of;
  for (std::size_t s = 0; s < class_partition.of.size(); ++s)
    class_of.push_back(joint.try_emplace({class_partition.of[s], other_partition.of[s]}, static_cast<int>(joint.size()))
                           .first->second);
  return entry->second = number(class_of);
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
  std::vector<std::size_t> index(axes, 0), from(axes, 0);  // from[a]: the offset given by the axes before a
  const auto& last = step.back();
  std::size_t outermost = 0;  // the outermost axis whose index changed
  for (std::size_t position = 0; position < out.size(); position += last.size()) {
    for (std::size_t a = outermost; a + 1 < axes; ++a) from[a + 1] = from[a] + step[a][index[a]];
    const double* row = cells.data() + from[axes - 1];
    for (std::size_t i = 0; i < last.size(); ++i) out[position + i] += row[last[i]];
    for (outermost = axes - 1; outermost-- > 0;) {
      if (++index[outermost] < step[outermost].size()) break;
      index[outermost] = 0;
    }
  }
}

namespace {
// Returns the cost array of an arranged factor.
CostArray cost_array_of(const CostCells& cells, const ArrangedFactor& arranged) {
  CostArray cost_array{arranged.sizes, {}, cells.cost, {}};
  if (cells.implied_class.empty()) {
    if (arranged.keeps_order) return cost_array;
    cost_array.owned_cells.assign(cell_count(arranged.sizes), 0.0);
    add_gathered(cost_array.owned_cells, cells.cost, arranged.step);
    cost_array.borrowed_cells = {};
    return cost_array;
  }
  cost_array.borrowed_cells = {};
  if (arranged.keeps_order && arranged.sizes.size() == arranged.factor_sizes.size()) {
    cost_array.implied_class = cells.implied_class;
    return cost_array;
  }
  const std::vector<double> dense = dense_cells({arranged.factor_sizes, {}, {}, cells.implied_class});
  cost_array.owned_cells.assign(cell_count(arranged.sizes), 0.0);
  add_gathered(cost_array.owned_cells, dense, arranged.step);
  return cost_array;
}
}  // namespace

CostGraph cost_graph(const MinSumProblem& problem) {
  check(problem);
  CostGraph graph;
  graph.states = problem.domain;
  std::map<std::pair<const CostCells*, std::vector<int>>, int> cost_array_of_axes;  // by cells and permutation of axes
  for (const Factor& factor : problem.factors) {
    ArrangedFactor arranged = arrange(graph, factor);
    if (arranged.table.scope.empty()) {
      graph.constant += factor.cells->implied_class.empty()  ? factor.cells->cost[0]
                        : factor.cells->implied_class[0] < 0 ? inf
                                                             : 0;
      continue;
    }
    // The permutation of the axes; together with the classes of the cells, it determines where each cell goes.
    std::vector<int> permutation = arranged.sizes;
    for (std::size_t a = 0; a < factor.scope.size(); ++a) {
      auto position = std::lower_bound(arranged.table.scope.begin(), arranged.table.scope.end(), factor.scope[a]);
      permutation.push_back(position != arranged.table.scope.end() && *position == factor.scope[a]
                                ? static_cast<int>(position - arranged.table.scope.begin())
                                : -1);
    }
    auto [entry, inserted] =
        cost_array_of_axes.try_emplace({factor.cells.get(), permutation}, static_cast<int>(graph.cost_arrays.size()));
    if (inserted) graph.cost_arrays.push_back(cost_array_of(*factor.cells, arranged));
    arranged.table.cost_array = entry->second;
    graph.tables.push_back(std::move(arranged.table));
  }
  return graph;
}

double magnitude(const CostGraph& graph) {
  std::vector<double> largest;
  for (const CostArray& cost_array : graph.cost_arrays) {
    double max_cost = 0;
    for (double c : cost_array.cells())
      if (c < inf) max_cost = std::max(max_cost, std::abs(c));
    largest.push_back(max_cost);
  }
  double sum = std::abs(graph.constant);
  for (const Table& table : graph.tables) sum += largest[static_cast<std::size_t>(table.cost_array)];
  return sum;
}

}  // namespace karez::solve
