// Sequential reweighted message passing (Kolmogorov, "A new look at reweighted message passing", 2015) with
// single-variable separators. For each variable, a pass collects the min-marginals of its tables, then sends equal
// shares to the tables that have later variables. On a chain, one pass is dynamic programming and the bound is exact.
// The bound never decreases. Tables have classes of states; a message to a class is the minimum of the costs of its
// states.
#include "karez/solve/dual_bound.h"

#include <algorithm>
#include <limits>

#include "karez/base/interrupt.h"
#include "karez/solve/min_marginal.h"

namespace karez::solve {
namespace {
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double max_enumerated = 5000;  // joint classes of a step's result that states_within enumerates

const Table& table_of(const Elimination& plan, int table) { return plan.graph.tables[static_cast<std::size_t>(table)]; }
const CostArray& cost_array_of(const Elimination& plan, int table) {
  return plan.graph.cost_arrays[static_cast<std::size_t>(table_of(plan, table).cost_array)];
}
const StatePartition& partition_of(const Elimination& plan, Reweighting::Use use) {
  return plan.graph.partitions[table_of(plan, use.table).partitions[static_cast<std::size_t>(use.axis)]];
}

Axes axes_of(const Elimination& plan, const Reweighting& r, int table) {
  Axes axes;
  const auto& sizes = cost_array_of(plan, table).sizes;
  for (std::size_t a = 0; a < sizes.size(); ++a) axes.push_back({sizes[a], r.message[table][a].data()});
  return axes;
}

// Computes the minimum cost for each class of one axis.
void compute_min_marginal(const Elimination& plan, Reweighting::Use use, const Axes& axes,
                          std::span<double> min_costs) {
  const CostArray& cost_array = cost_array_of(plan, use.table);
  if (cost_array.implied_class.empty()) {
    min_marginal(cost_array.cells(), axes, static_cast<std::size_t>(use.axis), min_costs);
  } else {
    min_marginal(std::span<const int>(cost_array.implied_class), axes, static_cast<std::size_t>(use.axis), min_costs);
  }
}

// Returns whether the table has variables after this axis in the direction of the pass. Scopes are ascending.
bool reaches_on(const Elimination& plan, Reweighting::Use use, bool ascending) {
  const int last = static_cast<int>(table_of(plan, use.table).scope.size()) - 1;
  return ascending ? use.axis < last : use.axis > 0;
}
}  // namespace

Reweighting reweighting(const Elimination& plan) {
  Reweighting r;
  r.node.resize(plan.graph.states.size());
  r.uses.resize(plan.graph.states.size());
  r.message.resize(plan.graph.tables.size());
  r.bound = constant_of(plan);
  for (int v : plan.remaining) r.node[v].assign(static_cast<std::size_t>(plan.graph.states[v]), 0.0);
  for (int t = 0; t < static_cast<int>(plan.graph.tables.size()); ++t) {
    const Table& table = table_of(plan, t);
    if (!plan.alive[t] || table.scope.empty()) continue;
    if (table.scope.size() == 1) {
      auto& node = r.node[table.scope[0]];
      const StatePartition& partition = partition_of(plan, {t, 0});
      for (std::size_t s = 0; s < node.size(); ++s) node[s] += cost_array_of(plan, t).cells()[partition.of[s]];
      continue;
    }
    for (std::size_t a = 0; a < table.scope.size(); ++a) {
      r.message[t].emplace_back(cost_array_of(plan, t).sizes[a], 0.0);
      r.uses[table.scope[a]].push_back({t, static_cast<int>(a)});
    }
  }
  r.unary_cost = r.min_cost = r.node;
  for (auto& costs : r.min_cost) std::fill(costs.begin(), costs.end(), -inf);
  return r;
}

void run_pass(const Elimination& plan, Reweighting& r, bool ascending) {
  std::vector<double> min_costs, subtracted;
  for (std::size_t i = 0; i < plan.remaining.size(); ++i) {
    base::check_interrupt();
    const int v = plan.remaining[ascending ? i : plan.remaining.size() - 1 - i];
    auto& node = r.node[v];
    int sources = 0, sinks = 0;
    for (Reweighting::Use use : r.uses[v]) {
      const bool from_before = reaches_on(plan, use, !ascending);
      sources += from_before;
      sinks += reaches_on(plan, use, ascending);
      if (!from_before && !r.first_pass) continue;  // unchanged since the opposite pass read it
      const StatePartition& partition = partition_of(plan, use);
      min_costs.resize(partition.first.size());
      compute_min_marginal(plan, use, axes_of(plan, r, use.table), min_costs);
      auto& message = r.message[use.table][use.axis];
      for (std::size_t c = 0; c < min_costs.size(); ++c)
        if (min_costs[c] < inf) message[c] -= min_costs[c];
      for (std::size_t s = 0; s < node.size(); ++s) node[s] += min_costs[partition.of[s]];
    }
    const double floor = *std::min_element(node.begin(), node.end());
    r.bound += floor;
    if (floor == inf) return;  // every choice is forbidden
    for (double& cost : node) cost -= floor;
    if (!r.first_pass)  // the minima of all other tables and variables are now at least zero
      for (std::size_t s = 0; s < node.size(); ++s) r.min_cost[v][s] = std::max(r.min_cost[v][s], r.bound + node[s]);
    if (sinks == 0) continue;
    const double share = 1.0 / std::max(sources, sinks);
    subtracted.assign(node.size(), 0.0);
    for (Reweighting::Use use : r.uses[v]) {
      if (!reaches_on(plan, use, ascending)) continue;
      const StatePartition& partition = partition_of(plan, use);
      min_costs.assign(partition.first.size(), inf);
      for (std::size_t s = 0; s < node.size(); ++s)
        min_costs[partition.of[s]] = std::min(min_costs[partition.of[s]], node[s] * share);
      auto& message = r.message[use.table][use.axis];
      for (std::size_t c = 0; c < min_costs.size(); ++c) message[c] += min_costs[c];
      for (std::size_t s = 0; s < node.size(); ++s) subtracted[s] += min_costs[partition.of[s]];
    }
    for (std::size_t s = 0; s < node.size(); ++s)
      if (node[s] < inf) node[s] -= subtracted[s];
  }
  r.first_pass = false;
}

StateMasks states_within(const Elimination& plan, const Reweighting& r, double excess) {
  StateMasks kept;
  for (int states : plan.graph.states) kept.emplace_back(states, 0);
  std::vector<double> min_costs;
  for (int v : plan.remaining) {
    std::vector<double> cost = r.node[v];
    for (Reweighting::Use use : r.uses[v]) {  // the minima of all other tables and variables are at least zero
      const StatePartition& partition = partition_of(plan, use);
      min_costs.resize(partition.first.size());
      compute_min_marginal(plan, use, axes_of(plan, r, use.table), min_costs);
      for (std::size_t s = 0; s < cost.size(); ++s) cost[s] += min_costs[partition.of[s]];
    }
    for (std::size_t s = 0; s < cost.size(); ++s) kept[v][s] = std::max(cost[s], r.min_cost[v][s] - r.bound) <= excess;
  }
  // A state of an eliminated variable is kept if, for some choice of kept states of the other variables, it costs at
  // most `excess` more than the cheapest state.
  for (std::size_t i = plan.steps.size(); i-- > 0;) {
    base::check_interrupt();
    const EliminationStep& step = plan.steps[i];
    const Table& result = table_of(plan, step.out);
    auto& own_states = kept[step.variable];
    std::vector<std::vector<int>> kept_classes;  // by axis: one state of each kept class
    for (std::size_t a = 0; a < result.scope.size(); ++a) {
      const StatePartition& partition = partition_of(plan, {step.out, static_cast<int>(a)});
      std::vector<char> present(partition.first.size(), 0);
      for (std::size_t s = 0; s < partition.of.size(); ++s)
        if (kept[result.scope[a]][s]) present[partition.of[s]] = 1;
      kept_classes.emplace_back();
      for (std::size_t c = 0; c < present.size(); ++c)
        if (present[c]) kept_classes.back().push_back(partition.first[c]);
    }
    if (std::any_of(kept_classes.begin(), kept_classes.end(), [](const auto& m) { return m.empty(); }))
      continue;  // no choice is kept
    double cells = 1;
    for (const auto& m : kept_classes) cells *= static_cast<double>(m.size());
    if (cells > max_enumerated) {  // with so many joint classes, few states would be excluded
      std::fill(own_states.begin(), own_states.end(), 1);
      continue;
    }
    with_join(plan, step, kept_classes, [&](Join& join) {
      join.for_each([&](std::span<const double> costs) {
        const double max_cost = *std::min_element(costs.begin(), costs.end()) + excess;
        bool all_kept = true;
        for (std::size_t s = 0; s < costs.size(); ++s) {
          own_states[s] = own_states[s] || costs[s] <= max_cost;
          all_kept = all_kept && own_states[s];
        }
        return !all_kept;
      });
    });
  }
  return kept;
}

std::vector<int> round_choice(const Elimination& plan, const Reweighting& r, bool ascending) {
  std::vector<int> choice(plan.graph.states.size(), -1);
  std::vector<double> min_costs;
  for (std::size_t i = 0; i < plan.remaining.size(); ++i) {
    base::check_interrupt();
    const int v = plan.remaining[ascending ? i : plan.remaining.size() - 1 - i];
    std::vector<double> cost = r.node[v];
    for (Reweighting::Use use : r.uses[v]) {
      if (!reaches_on(plan, use, !ascending))
        continue;  // no variable of the table is chosen yet, and its minimum is zero for every state
      Axes axes = axes_of(plan, r, use.table);
      const auto& scope = table_of(plan, use.table).scope;
      for (std::size_t a = 0; a < axes.size(); ++a)
        if (choice[scope[a]] >= 0)
          axes[a].fixed = partition_of(plan, {use.table, static_cast<int>(a)}).of[choice[scope[a]]];
      const StatePartition& partition = partition_of(plan, use);
      min_costs.resize(partition.first.size());
      compute_min_marginal(plan, use, axes, min_costs);
      for (std::size_t s = 0; s < cost.size(); ++s) cost[s] += min_costs[partition.of[s]];
    }
    choice[v] = static_cast<int>(std::min_element(cost.begin(), cost.end()) - cost.begin());
  }
  decode_choice(plan, choice);
  return choice;
}

double recomputed_bound(const Elimination& plan, const Reweighting& r) {
  double sum = constant_of(plan);
  std::vector<double> min_costs;
  for (int t = 0; t < static_cast<int>(plan.graph.tables.size()); ++t) {
    const Table& table = table_of(plan, t);
    if (!plan.alive[t] || table.scope.size() < 2) continue;
    min_costs.resize(static_cast<std::size_t>(cost_array_of(plan, t).sizes[0]));
    compute_min_marginal(plan, {t, 0}, axes_of(plan, r, t), min_costs);
    sum += *std::min_element(min_costs.begin(), min_costs.end());
  }
  for (int v : plan.remaining) {  // the variable's initial costs minus all messages to its tables
    std::vector<double> node = r.unary_cost[v];
    for (Reweighting::Use use : r.uses[v])
      for (std::size_t s = 0; s < node.size(); ++s) {
        const double sent_cost = r.message[use.table][use.axis][partition_of(plan, use).of[s]];
        node[s] = sent_cost < inf ? node[s] - sent_cost : inf;
      }
    sum += *std::min_element(node.begin(), node.end());
  }
  return sum;
}

}  // namespace karez::solve
