// Plans and executes eliminations.
#include "karez/solve/elimination.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <set>

#include "karez/base/interrupt.h"

namespace karez::solve {
namespace {

constexpr std::size_t max_dense = 1 << 18;  // maximum number of cells of a table whose implied classes are expanded
constexpr double max_expansion = 6;         // largest expanded result, as a multiple of max_cells
constexpr double too_many_cells = 1e300, inf = std::numeric_limits<double>::infinity();

// The scope and the size of a step's result.
struct StepResult {
  std::vector<int> scope, partitions;
  double cells = 1, stored = 0,
         expanded_cells = 0;  // cells of the result; stored and expanded cells of the tables that it replaces
};

class EliminationPlanner {
 public:
  EliminationPlanner(CostGraph graph, EliminationRule rule, double max_cells, double max_stored)
      : rule_(rule),
        max_cells_(max_cells),
        max_stored_(max_stored) {
    plan_.graph = std::move(graph);
    plan_.filled_by.assign(plan_.graph.cost_arrays.size(), -1);
    plan_.alive.assign(plan_.graph.tables.size(), 1);
    const auto variables = plan_.graph.states.size();
    tables_.resize(variables);
    neighbours_.resize(variables);
    scores_.resize(variables);
    for (int t = 0; t < static_cast<int>(plan_.graph.tables.size()); ++t) {
      const auto& scope = plan_.graph.tables[static_cast<std::size_t>(t)].scope;
      for (int v : scope) tables_[v].push_back(t);
      add_neighbours(scope);
    }
    for (int v = 0; v < static_cast<int>(variables); ++v) score(v);
  }

  Elimination run() {
    while (!queue_.empty() && plan_.stored <= max_stored_) {
      base::check_interrupt();
      const int v = queue_.begin()->second;
      queue_.erase(queue_.begin());
      const StepResult result = result_of(v);
      if (!is_cheap(result)) continue;  // the variable is queued again when a neighbour is eliminated
      eliminated_.insert(v);
      eliminate(v, result);
    }
    for (int v = 0; v < plan_.graph.variables(); ++v)
      if (!eliminated_.count(v)) plan_.remaining.push_back(v);
    return std::move(plan_);
  }

 private:
  const Table& table(int t) const { return plan_.graph.tables[static_cast<std::size_t>(t)]; }

  // Expanding implied classes permits further eliminations, but increases the number of cells to read.
  bool is_cheap(const StepResult& result) const {
    return result.cells <= max_cells_ || result.cells <= result.stored ||
           (result.cells <= result.expanded_cells && result.cells <= max_expansion * max_cells_);
  }

  void add_neighbours(const std::vector<int>& scope) {
    if (rule_ != EliminationRule::min_fill) return;
    for (int v : scope)
      for (int w : scope)
        if (v != w) neighbours_[v].insert(w);
  }

  StepResult result_of(int v) {
    StepResult result;
    std::vector<std::pair<int, int>> axes;  // variable and partition
    for (int t : tables_[v]) {
      const CostArray& cost_array = plan_.graph.cost_arrays[static_cast<std::size_t>(table(t).cost_array)];
      if (!cost_array.implied_class.empty() && cell_count(cost_array.sizes) > max_dense) result.cells = too_many_cells;
      double cells = 1;
      for (std::size_t a = 0; a < table(t).scope.size(); ++a) {
        const int w = table(t).scope[a];
        cells *= plan_.graph.partitions[table(t).partitions[a]].count();
        if (w != v) axes.emplace_back(w, table(t).partitions[a]);
      }
      result.expanded_cells += cells;
      result.stored += cost_array.implied_class.empty() ? cells : static_cast<double>(cost_array.implied_class.size());
    }
    std::sort(axes.begin(), axes.end());
    for (auto [w, partition] : axes) {
      if (!result.scope.empty() && result.scope.back() == w) {
        result.partitions.back() = plan_.graph.partitions.common_refinement(result.partitions.back(), partition);
      } else {
        result.scope.push_back(w);
        result.partitions.push_back(partition);
      }
    }
    for (int partition : result.partitions) result.cells *= plan_.graph.partitions[partition].count();
    return result;
  }

  void score(int v) {
    const StepResult result = result_of(v);
    double score = result.cells;
    if (rule_ == EliminationRule::min_fill) {
      score = 1e-9 * std::min(result.cells, 1e9);  // ties go to the smaller result
      auto size = [&](std::size_t i) {
        return static_cast<double>(plan_.graph.partitions[result.partitions[i]].count());
      };
      for (std::size_t i = 0; i < result.scope.size(); ++i)
        for (std::size_t j = i + 1; j < result.scope.size(); ++j)
          if (!neighbours_[result.scope[i]].count(result.scope[j])) score += size(i) * size(j);
    }
    scores_[v] = score;
    queue_.emplace(score, v);
  }

  // Returns the cost array of a step's result, which is shared with an earlier step that had the same inputs. Tables
  // with the same cost array have the same partitions.
  int cost_array_of(int v, const EliminationStep& step, const StepResult& result) {
    std::vector<int> key;
    for (int t : step.inputs) {
      key.push_back(table(t).cost_array);
      for (std::size_t a = 0; a < table(t).scope.size(); ++a) {
        const int w = table(t).scope[a];
        key.push_back(w == v ? -1
                             : static_cast<int>(std::lower_bound(result.scope.begin(), result.scope.end(), w) -
                                                result.scope.begin()));
      }
    }
    auto [entry, inserted] =
        cost_array_of_inputs_.try_emplace(std::move(key), static_cast<int>(plan_.graph.cost_arrays.size()));
    if (!inserted) return entry->second;
    CostArray cost_array;
    for (int partition : result.partitions) cost_array.sizes.push_back(plan_.graph.partitions[partition].count());
    plan_.graph.cost_arrays.push_back(std::move(cost_array));
    plan_.filled_by.push_back(static_cast<int>(plan_.steps.size()));
    plan_.stored += result.cells;
    plan_.work += result.cells * plan_.graph.states[static_cast<std::size_t>(v)];
    return entry->second;
  }

  void eliminate(int v, const StepResult& result) {
    EliminationStep step{v, tables_[v], static_cast<int>(plan_.graph.tables.size())};
    std::sort(step.inputs.begin(), step.inputs.end(), [&](int a, int b) {  // so that equal inputs have the same order
      const Table &first_table = table(a), &second_table = table(b);
      return std::pair(first_table.cost_array, a) < std::pair(second_table.cost_array, b);
    });
    const int cost_array = cost_array_of(v, step, result);
    for (int t : step.inputs) {
      plan_.alive[static_cast<std::size_t>(t)] = 0;
      for (int w : table(t).scope) std::erase(tables_[w], t);
    }
    plan_.graph.tables.push_back({result.scope, result.partitions, cost_array});
    plan_.alive.push_back(1);
    std::set<int> changed(result.scope.begin(), result.scope.end());
    for (int w : result.scope) tables_[w].push_back(step.out);
    if (rule_ == EliminationRule::min_fill) {
      for (int w : neighbours_[v]) {
        neighbours_[w].erase(v);
        changed.insert(w);
      }
      add_neighbours(result.scope);
      for (int w : result.scope) changed.insert(neighbours_[w].begin(), neighbours_[w].end());
    }
    for (int w : changed) {
      queue_.erase({scores_[w], w});
      score(w);
    }
    plan_.steps.push_back(std::move(step));
  }

  EliminationRule rule_;
  double max_cells_, max_stored_;
  Elimination plan_;
  std::vector<std::vector<int>> tables_;   // by variable: its alive tables
  std::vector<std::set<int>> neighbours_;  // by variable: the variables that share a table with it
  std::vector<double> scores_;
  std::set<std::pair<double, int>> queue_;
  std::set<int> eliminated_;
  std::map<std::vector<int>, int> cost_array_of_inputs_;
};

void fill(Elimination& plan, const EliminationStep& step) {
  const Table& out = plan.graph.tables[static_cast<std::size_t>(step.out)];
  std::vector<std::vector<int>> states;
  for (int partition : out.partitions) states.push_back(plan.graph.partitions[partition].first);
  std::vector<double> result;
  with_join(plan, step, states, [&](Join& join) { result = join.minimise(); });
  plan.graph.cost_arrays[static_cast<std::size_t>(out.cost_array)].owned_cells = std::move(result);
}
}  // namespace

void with_join(const Elimination& plan, const EliminationStep& step, const std::vector<std::vector<int>>& states,
               const std::function<void(Join&)>& use) {
  const CostGraph& graph = plan.graph;
  const Table& out = graph.tables[static_cast<std::size_t>(step.out)];
  std::vector<int> sizes;
  sizes.reserve(states.size());
  for (const auto& axis : states) sizes.push_back(static_cast<int>(axis.size()));
  Join join(sizes, graph.states[static_cast<std::size_t>(step.variable)]);
  std::deque<std::vector<double>> dense;  // expanded cells of inputs with implied classes
  for (int t : step.inputs) {
    const Table& table = graph.tables[static_cast<std::size_t>(t)];
    const CostArray& from = graph.cost_arrays[static_cast<std::size_t>(table.cost_array)];
    const std::vector<double>* expanded = nullptr;
    if (!from.implied_class.empty()) expanded = &dense.emplace_back(dense_cells(from));
    const std::vector<std::size_t> stride = strides_of(from.sizes);
    AxisOffsets offsets(out.scope.size());
    std::vector<std::size_t> of_x;
    for (std::size_t a = 0; a < table.scope.size(); ++a) {
      const StatePartition& partition = graph.partitions[table.partitions[a]];
      if (table.scope[a] == step.variable) {
        for (int c : partition.of) of_x.push_back(stride[a] * static_cast<std::size_t>(c));
        continue;
      }
      const auto place = static_cast<std::size_t>(std::lower_bound(out.scope.begin(), out.scope.end(), table.scope[a]) -
                                                  out.scope.begin());
      for (int state : states[place])
        offsets[place].push_back(stride[a] * static_cast<std::size_t>(partition.of[static_cast<std::size_t>(state)]));
    }
    join.add(expanded ? std::span<const double>(*expanded) : from.cells(), std::move(offsets), of_x);
  }
  use(join);
}

Elimination plan_elimination(CostGraph graph, EliminationRule rule, double max_cells, double max_stored) {
  return EliminationPlanner(std::move(graph), rule, max_cells, max_stored).run();
}

std::optional<Elimination> plan_exact(const CostGraph& graph, double max_cells, double little_work) {
  std::optional<Elimination> best;
  for (EliminationRule rule : {EliminationRule::smallest, EliminationRule::min_fill}) {
    if (best && best->work <= little_work) break;
    Elimination plan = plan_elimination(graph, rule, max_cells, best ? best->stored : 4 * max_cells);
    if (plan.remaining.empty() && plan.stored <= 4 * max_cells && (!best || plan.work < best->work))
      best = std::move(plan);
  }
  return best;
}

void fill(Elimination& plan) {
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    base::check_interrupt();
    const EliminationStep& step = plan.steps[s];
    const int cost_array = plan.graph.tables[static_cast<std::size_t>(step.out)].cost_array;
    if (plan.filled_by[static_cast<std::size_t>(cost_array)] == static_cast<int>(s)) fill(plan, step);
  }
}

double constant_of(const Elimination& plan) {
  double sum = plan.graph.constant;
  for (const EliminationStep& step : plan.steps) {
    base::check_interrupt();
    const Table& out = plan.graph.tables[static_cast<std::size_t>(step.out)];
    if (out.scope.empty()) sum += plan.graph.cost_arrays[static_cast<std::size_t>(out.cost_array)].cells()[0];
  }
  return sum;
}

void costs_of(const Elimination& plan, const EliminationStep& step, std::span<const int> choice,
              std::vector<double>& costs) {
  const CostGraph& graph = plan.graph;
  costs.assign(static_cast<std::size_t>(graph.states[static_cast<std::size_t>(step.variable)]), 0.0);
  for (int t : step.inputs) {
    const Table& table = graph.tables[static_cast<std::size_t>(t)];
    const CostArray& cost_array = graph.cost_arrays[static_cast<std::size_t>(table.cost_array)];
    const std::vector<std::size_t> stride = strides_of(cost_array.sizes);
    std::size_t offset = 0, variable_axis = 0;
    for (std::size_t a = 0; a < table.scope.size(); ++a) {
      const StatePartition& partition = graph.partitions[table.partitions[a]];
      if (table.scope[a] == step.variable) variable_axis = a;
      else
        offset +=
            stride[a] * static_cast<std::size_t>(
                            partition.of[static_cast<std::size_t>(choice[static_cast<std::size_t>(table.scope[a])])]);
    }
    const StatePartition& partition = graph.partitions[table.partitions[variable_axis]];
    const auto last = static_cast<std::size_t>(cost_array.sizes.back());
    for (std::size_t s = 0; s < costs.size(); ++s) {
      const std::size_t cell = offset + stride[variable_axis] * static_cast<std::size_t>(partition.of[s]);
      costs[s] += cost_array.implied_class.empty()                                         ? cost_array.cells()[cell]
                  : cost_array.implied_class[cell / last] == static_cast<int>(cell % last) ? 0
                                                                                           : inf;
    }
  }
}

void decode_choice(const Elimination& plan, std::vector<int>& choice) {
  std::vector<double> costs;
  for (std::size_t i = plan.steps.size(); i-- > 0;) {
    const EliminationStep& step = plan.steps[i];
    costs_of(plan, step, choice, costs);
    choice[static_cast<std::size_t>(step.variable)] =
        static_cast<int>(std::min_element(costs.begin(), costs.end()) - costs.begin());
  }
}

}  // namespace karez::solve
