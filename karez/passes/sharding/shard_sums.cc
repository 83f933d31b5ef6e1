// Checks that sums stay dense between the node that makes them and the nodes that pass them.
#include "karez/passes/sharding/shard_sums.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace karez::passes {
namespace {

bool is_sum(const Layout& layout, int axis) {
  const Sbp entry = layout[static_cast<std::size_t>(axis)];
  return entry.is_partial() && entry.reduce == Reduce::sum;
}
bool has_sums(const Layout& layout, const std::vector<int>& axes) {
  return std::all_of(axes.begin(), axes.end(), [&](int axis) { return is_sum(layout, axis); });
}

// True if the value reaches this target without being reduced and made Partial again on any of these axes.
bool keeps_sums(const Graph& graph, ValueId value, const Layout& from, const std::set<Layout>& targets,
                const Layout& target, const std::vector<int>& axes, TransitionCostCache& prices) {
  if (from.size() == 1 || from == target || targets.size() > 16) return true;
  TransitionTable& table = prices.table(graph.type(value), graph.mesh(value));
  int set = 0;
  for (const Layout& required : targets) set = table.with(set, table.number(required));
  const sbp::TransitionTree tree = table.tree(table.number(from), set);
  for (const Layout* current = &target; *current != from;) {
    const auto step = std::find_if(tree.steps.begin(), tree.steps.end(),
                                   [&](const TransitionStep& candidate) { return candidate.to == *current; });
    if (step == tree.steps.end()) return true;
    if (step->move == sbp::Move::to_partial && std::find(axes.begin(), axes.end(), step->axis) != axes.end())
      return false;
    current = &step->from;
  }
  return true;
}

// The sums that a node needs from one producer: pairs of result and axes.
using NeededSums = std::vector<std::pair<int, std::vector<int>>>;
// For each result, the axes on which it is a dense sum.
using DenseSums = std::vector<std::vector<int>>;

DenseSums dense_sums_of(const NodeChoice& choice) {
  DenseSums dense(choice.outs().size());
  if (choice.sums != nullptr && !choice.sums->can_be_dense()) return dense;
  for (std::size_t o = 0; o < dense.size(); ++o)
    for (int axis = 0; axis < static_cast<int>(choice.out(o).size()); ++axis)
      if (is_sum(choice.out(o), axis)) dense[o].push_back(axis);
  return dense;
}

bool has_needed_sums(const DenseSums& dense, const NeededSums& needed) {
  return std::all_of(needed.begin(), needed.end(), [&](const auto& sum) {
    const std::vector<int>& axes = dense[static_cast<std::size_t>(sum.first)];
    return std::includes(axes.begin(), axes.end(), sum.second.begin(), sum.second.end());
  });
}

// The sums that a node needs, by producer, then by the node's choice.
std::map<NodeId, std::vector<NeededSums>> needed_sums(const Graph& graph, NodeId node,
                                                      const std::vector<NodeChoice>& choices) {
  std::map<NodeId, std::vector<NeededSums>> needed;
  for (std::size_t c = 0; c < choices.size(); ++c) {
    if (choices[c].sums == nullptr) continue;
    for (const SumPass& pass : choices[c].sums->passes) {
      if (!pass.all && pass.operands.size() != 1)
        continue;  // one dense operand out of several is enough, which no table between two nodes can express
      for (int operand : pass.operands) {
        const auto& value = graph.value(graph.node(node).inputs[static_cast<std::size_t>(operand)]);
        needed.try_emplace(value.producer, choices.size()).first->second[c].emplace_back(value.output, pass.axes);
      }
    }
  }
  return needed;
}

// The cost is 0 if the producer makes all needed sums dense, otherwise +inf. Choices that satisfy the same needs are
// one class.
solve::CostCells cells_of(const std::vector<NodeChoice>& producer, const std::vector<NeededSums>& list) {
  const std::set<NeededSums> kinds(list.begin(), list.end());
  std::map<NeededSums, std::vector<bool>> fit;  // by choice of the producer
  for (const NeededSums& needed : kinds) fit[needed];
  std::map<std::vector<bool>, int> rows, columns;
  solve::CostCells cells;
  cells.classes.resize(2);
  for (const NodeChoice& choice : producer) {
    const DenseSums dense = dense_sums_of(choice);
    std::vector<bool> row;
    for (auto& [needed, column] : fit) {
      row.push_back(has_needed_sums(dense, needed));
      column.push_back(row.back());
    }
    cells.classes[0].push_back(rows.try_emplace(std::move(row), static_cast<int>(rows.size())).first->second);
  }
  for (const NeededSums& needed : list)
    cells.classes[1].push_back(columns.try_emplace(fit[needed], static_cast<int>(columns.size())).first->second);
  cells.cost.resize(rows.size() * columns.size());
  for (std::size_t p = 0; p < producer.size(); ++p)
    for (const auto& [column, c] : columns)
      cells.cost[static_cast<std::size_t>(cells.classes[0][p]) * columns.size() + static_cast<std::size_t>(c)] =
          column[p] ? 0 : INFINITY;
  return cells;
}

}  // namespace

NodeId first_unsound(const Graph& graph, const Choices& choices, const ById<NodeId, int>& chosen,
                     TransitionCostCache& prices) {
  auto choice_of = [&](NodeId node) -> const NodeChoice& {
    return choices[node][static_cast<std::size_t>(chosen[node])];
  };
  ById<ValueId, ConsumerLayouts> consumers;  // computed when first needed
  ById<NodeId, bool> masked(choices.size(), false);
  for (NodeId n : choices.ids()) {
    const NodeChoice& choice = choice_of(n);
    if (choice.sums == nullptr) continue;
    masked[n] = !choice.sums->can_be_dense();
    for (const SumPass& pass : choice.sums->passes) {
      if (pass.operands.empty()) continue;
      auto dense = [&](int operand) {
        const ValueId value = graph.node(n).inputs[static_cast<std::size_t>(operand)];
        const NodeId producer = graph.value(value).producer;
        const Layout &from = choice_of(producer).out(static_cast<std::size_t>(graph.value(value).output)),
                     &target = choice.in(static_cast<std::size_t>(operand));
        if (masked[producer] || !has_sums(from, pass.axes)) return false;
        if (from.size() == 1 || from == target) return true;
        if (consumers.size() == 0) consumers = consumer_layouts(graph);
        return keeps_sums(graph, value, from, targets_of(consumers[value], choices, chosen), target, pass.axes, prices);
      };
      const auto& operands = pass.operands;
      if (pass.all ? !std::all_of(operands.begin(), operands.end(), dense)
                   : std::none_of(operands.begin(), operands.end(), dense))
        return n;
    }
  }
  return {};
}

void forbid_masked_sums(const Graph& graph, const Choices& choices, LayoutProblem& problem) {
  using Cells = std::shared_ptr<const solve::CostCells>;
  auto precedes = [](const Cells& a, const Cells& b) {
    return std::tie(a->classes, a->cost) < std::tie(b->classes, b->cost);
  };
  std::set<Cells, decltype(precedes)> distinct_cells(precedes);  // equal tables are shared
  for (NodeId n : choices.ids())
    for (const auto& [producer, list] : needed_sums(graph, n, choices[n])) {
      solve::CostCells cells = cells_of(choices[producer], list);
      if (std::none_of(cells.cost.begin(), cells.cost.end(), [](double cost) { return cost > 0; })) continue;
      const Cells shared = *distinct_cells.insert(std::make_shared<const solve::CostCells>(std::move(cells))).first;
      problem.sum.factors.push_back({{problem.variable[producer], problem.variable[n]}, shared});
    }
}

}  // namespace karez::passes
