// Builds the cost tables of the planner. In the table of one value, all choices of a node that give this value the same
// layouts form one class, so a node has fewer classes than choices.
#include "karez/passes/sharding/shard_tables.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "karez/base/interrupt.h"
#include "karez/passes/sharding/shard_chains.h"
#include "karez/passes/sharding/shard_sums.h"

namespace karez::passes {
namespace {

// The limit for the table of one value, so that it has at most 12 consumers. A chain replaces a larger table.
constexpr std::size_t max_cells = 1 << 12;

class LayoutProblemBuilder {
 public:
  LayoutProblemBuilder(const Graph& graph, const Choices& choices, TransitionCostCache& prices, ChainOverflow overflow)
      : graph_(graph),
        choices_(choices),
        prices_(prices),
        overflow_(overflow) {
    for (NodeId n : choices.ids()) {
      problem.sum.domain.push_back(static_cast<int>(choices[n].size()));
      position_.push_back(n.index);
      std::vector<double> seconds;
      for (const NodeChoice& choice : choices[n]) seconds.push_back(choice.seconds);
      auto& cells = nodes_[seconds];
      if (!cells) cells = solve::factor({n.index}, seconds).cells;
      problem.sum.factors.push_back({{n.index}, cells});
    }
  }

  void add(ValueId value, const ConsumerLayouts& consumers) {
    if (made_whole_in_setup(graph_, consumers, choices_)) return;
    price_ = prices_.price_of(graph_, value);
    table_ = &price_->table();
    std::vector<NodeId> nodes = {consumers.producer};
    for (const Use& use : consumers.uses) nodes.push_back(use.node);
    nodes.insert(nodes.end(), consumers.stored_as_outputs_of.begin(), consumers.stored_as_outputs_of.end());
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());

    int fixed_layout = -1, set = 0;  // the produced layout and the required layouts that are equal for all choices
    for (const Layout& output : consumers.outputs) set = table_->with(set, table_->number(output));
    for (const Layout& stored : consumers.stored) set = table_->with(set, table_->number(stored));
    std::vector<TableMember> members;
    if (TableMember producer = member_of(consumers.producer, consumers, fixed_layout); producer.classes.size() == 1)
      fixed_layout = producer.classes[0].from;
    std::size_t cells = 1;
    for (NodeId node : nodes) {
      TableMember member = member_of(node, consumers, fixed_layout);
      if (member.classes.size() == 1) {
        set = unite(set, member.classes[0]);
        continue;
      }
      cells = std::min(cells * member.classes.size(), max_cells + 1);
      members.push_back(std::move(member));
    }
    if (members.empty()) {
      problem.constant += seconds(fixed_layout, set);
    } else if (cells <= max_cells) {
      add_factor(members, fixed_layout, set);
    } else if (fixed_layout >= 0) {
      add_each(members, fixed_layout, set);
    } else {
      add_chain(members, set);
    }
  }

  // Numbers the variables in program order, in which the bound visits them.
  LayoutProblem finish() {
    std::vector<int> order(position_.size()), number(position_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return position_[a] < position_[b]; });
    std::vector<int> domain;
    for (std::size_t i = 0; i < order.size(); ++i) {
      number[order[i]] = static_cast<int>(i);
      domain.push_back(problem.sum.domain[order[i]]);
    }
    problem.sum.domain = std::move(domain);
    for (solve::Factor& factor : problem.sum.factors)
      for (int& v : factor.scope) v = number[v];
    for (NodeId n : choices_.ids()) problem.variable.push_back(number[static_cast<std::size_t>(n.index)]);
    return std::move(problem);
  }

  LayoutProblem problem;

 private:
  // `fixed_layout` is the layout in which the value is produced if it is the same for all choices, otherwise -1.
  // Targets into which this layout can be changed at no cost are left out.
  TableMember member_of(NodeId node, const ConsumerLayouts& consumers, int fixed_layout) const {
    TableMember member{node.index, {}, {}};
    std::map<TableMember::Class, int> class_numbers;
    const auto by_node = [](const Use& a, const Use& b) { return a.node < b.node; };  // uses are sorted by node
    const auto [first, last] = std::equal_range(consumers.uses.begin(), consumers.uses.end(), Use{node, 0}, by_node);
    for (const NodeChoice& choice : choices_[node]) {
      TableMember::Class member_class;
      if (node == consumers.producer)
        member_class.from = table_->number(choice.out(static_cast<std::size_t>(consumers.output)));
      for (auto use = first; use != last; ++use)
        member_class.targets.push_back(table_->number(choice.in(static_cast<std::size_t>(use->operand))));
      if (std::find(consumers.stored_as_outputs_of.begin(), consumers.stored_as_outputs_of.end(), node) !=
          consumers.stored_as_outputs_of.end())
        member_class.targets.push_back(table_->number(choice.out(0)));
      if (fixed_layout >= 0)
        std::erase_if(member_class.targets,
                      [&](int target) { return target == fixed_layout || price_->implies(fixed_layout, target); });
      std::sort(member_class.targets.begin(), member_class.targets.end());
      member_class.targets.erase(std::unique(member_class.targets.begin(), member_class.targets.end()),
                                 member_class.targets.end());
      auto [at, inserted] = class_numbers.try_emplace(member_class, static_cast<int>(class_numbers.size()));
      if (inserted) member.classes.push_back(std::move(member_class));
      member.class_of.push_back(at->second);
    }
    return member;
  }

  double seconds(int fixed_layout, int set) const { return price_->seconds(fixed_layout, set); }

  int unite(int set, const TableMember::Class& member_class) const {
    for (int target : member_class.targets) set = table_->with(set, target);
    return set;
  }

  // Fills the cells, row-major over the members' classes.
  void fill(const std::vector<TableMember>& members, std::size_t level, int fixed_layout, int set,
            std::vector<double>& cost) const {
    if (level == members.size()) return cost.push_back(seconds(fixed_layout, set));
    for (const TableMember::Class& member_class : members[level].classes)
      fill(members, level + 1, member_class.from >= 0 ? member_class.from : fixed_layout, unite(set, member_class),
           cost);
  }

  // Adds a factor with the cost of the members' joint classes. Values with equal requests share cells.
  void add_factor(const std::vector<TableMember>& members, int fixed_layout, int set) {
    solve::Factor factor;
    for (const TableMember& member : members) factor.scope.push_back(member.node);
    auto [at, inserted] = cells_of_key_.try_emplace(key_of(members, fixed_layout, set));
    if (inserted) {
      auto cells = std::make_shared<solve::CostCells>();
      for (const TableMember& member : members) cells->classes.push_back(member.class_of);
      fill(members, 0, fixed_layout, set, cells->cost);
      at->second = std::move(cells);
    }
    factor.cells = at->second;
    problem.sum.factors.push_back(std::move(factor));
  }

  // Adds a chain. The producer is one of the members, since its choices differ.
  void add_chain(const std::vector<TableMember>& members, int base) {
    const TableMember* producer = nullptr;
    std::vector<const TableMember*> consumers;
    for (const TableMember& member : members) {  // the only target of a producer is the layout that it produces itself
      if (member.classes[0].from >= 0) producer = &member;
      else consumers.push_back(&member);
    }
    auto [known, inserted] = chains_.try_emplace(key_of(members, -1, base));
    LayoutChains& chains = known->second;
    if (inserted) chains = chains_of({*price_, *producer, consumers, base}, prices_, overflow_);
    problem.inexact_values += !chains.exact;
    // If not even one layout can be tracked, each consumer pays for its own transitions, which never underestimates the
    // cost.
    if (chains.chains[0].links.empty() && overflow_ == ChainOverflow::forbidden)
      for (const TableMember* consumer : consumers) add_factor({*producer, *consumer}, -1, 0);
    for (const LayoutChain& chain : chains.chains) add_links(chain, *producer, consumers);
  }

  void add_links(const LayoutChain& chain, const TableMember& producer,
                 const std::vector<const TableMember*>& consumers) {
    int last = -1;
    for (const LayoutChain::Link& link : chain.links) {
      const int node = consumers[link.consumer]->node;
      solve::Factor factor{{}, link.cells};
      if (last >= 0) factor.scope.push_back(last);
      factor.scope.push_back(node);
      last = static_cast<int>(problem.sum.domain.size());
      problem.sum.domain.push_back(link.states);
      position_.push_back(node);
      factor.scope.push_back(last);
      problem.sum.factors.push_back(std::move(factor));
    }
    solve::Factor price{{producer.node}, chain.price};
    if (last >= 0) price.scope.push_back(last);
    problem.sum.factors.push_back(std::move(price));
  }

  // For a value that is always produced in the same layout and has many consumers: each consumer gets its own table.
  // The cost of all consumers together is at least the mean of their costs and at most the sum.
  void add_each(const std::vector<TableMember>& members, int fixed_layout, int set) {
    ++problem.inexact_values;
    for (const TableMember& member : members) {
      solve::Factor factor;
      auto cells = std::make_shared<solve::CostCells>();
      factor.scope = {member.node};
      cells->classes = {member.class_of};
      for (const TableMember::Class& member_class : member.classes)
        cells->cost.push_back(overflow_ == ChainOverflow::forbidden ? seconds(fixed_layout, unite(0, member_class))
                                                                    : seconds(fixed_layout, unite(set, member_class)) /
                                                                          static_cast<double>(members.size()));
      factor.cells = std::move(cells);
      problem.sum.factors.push_back(std::move(factor));
    }
    if (overflow_ == ChainOverflow::forbidden) problem.constant += seconds(fixed_layout, set);
  }

  // Everything that determines the cells of a table.
  struct TableKey {
    const TransitionTable* table;
    int fills;
    FusedValue fused;
    int fixed_layout, set;
    std::vector<std::pair<std::vector<TableMember::Class>, std::vector<int>>> members;
    auto operator<=>(const TableKey&) const = default;
  };
  TableKey key_of(const std::vector<TableMember>& members, int fixed_layout, int set) const {
    TableKey key{table_, price_->fills(), price_->fused(), fixed_layout, set, {}};
    for (const TableMember& member : members) key.members.emplace_back(member.classes, member.class_of);
    return key;
  }

  const Graph& graph_;
  const Choices& choices_;
  TransitionCostCache& prices_;
  ChainOverflow overflow_;
  std::optional<ValuePrice> price_;   // of the current value
  TransitionTable* table_ = nullptr;  // table of the current value
  std::map<TableKey, std::shared_ptr<const solve::CostCells>> cells_of_key_;
  std::map<TableKey, LayoutChains> chains_;
  std::map<std::vector<double>, std::shared_ptr<const solve::CostCells>> nodes_;
  std::vector<int> position_;  // by variable: the node at whose position it is ordered
};

}  // namespace

ById<ValueId, ConsumerLayouts> consumer_layouts(const Graph& graph) {
  auto uses = uses_of(graph);
  ById<ValueId, ConsumerLayouts> consumers(graph.values.size());
  for (ValueId v : consumers.ids()) {
    consumers[v].producer = graph.values[v].producer;
    consumers[v].output = graph.values[v].output;
    consumers[v].uses = uses[v];
  }
  for (const Output& output : graph.outputs)
    if (!is_planned(graph, output)) consumers[output.value].outputs.push_back(layout_of(graph, output));
  for (const Variable& variable : graph.variables) {
    if (!variable.updated.valid()) continue;
    ConsumerLayouts& updated = consumers[variable.updated];
    if (variable.stored) {
      updated.stored.push_back(*variable.stored);
    } else if (variable.read.valid()) {
      updated.stored_as_outputs_of.push_back(graph.value(variable.read).producer);
    } else {
      updated.stored.push_back(broadcast_layout(graph.meshes[static_cast<std::size_t>(variable.mesh)]));
    }
  }
  return consumers;
}

std::set<Layout> targets_of(const ConsumerLayouts& consumers, const Choices& choices, const ById<NodeId, int>& chosen) {
  auto choice_of = [&](NodeId node) -> const NodeChoice& {
    return choices[node][static_cast<std::size_t>(chosen[node])];
  };
  std::set<Layout> targets;
  for (const Use& use : consumers.uses) targets.insert(choice_of(use.node).in(static_cast<std::size_t>(use.operand)));
  targets.insert(consumers.outputs.begin(), consumers.outputs.end());
  targets.insert(consumers.stored.begin(), consumers.stored.end());
  for (NodeId variable_node : consumers.stored_as_outputs_of) targets.insert(choice_of(variable_node).out(0));
  return targets;
}

const Layout& producer_layout(const ConsumerLayouts& consumers, const Choices& choices,
                              const ById<NodeId, int>& chosen) {
  return choices[consumers.producer][static_cast<std::size_t>(chosen[consumers.producer])].out(
      static_cast<std::size_t>(consumers.output));
}

bool made_whole_in_setup(const Graph& graph, const ConsumerLayouts& consumers, const Choices& choices) {
  if (!graph.node(consumers.producer).setup) return false;
  const auto& producer_choices = choices[consumers.producer];
  return std::all_of(producer_choices.begin(), producer_choices.end(), [&](const NodeChoice& producer_choice) {
    const Layout& layout = producer_choice.out(static_cast<std::size_t>(consumers.output));
    return std::all_of(layout.begin(), layout.end(), [](Sbp entry) { return entry.is_broadcast(); });
  });
}

LayoutProblem layout_problem(const Graph& graph, const Choices& choices, TransitionCostCache& prices,
                             ChainOverflow overflow) {
  LayoutProblemBuilder tables(graph, choices, prices, overflow);
  auto consumers = consumer_layouts(graph);
  for (ValueId v : consumers.ids()) {
    check_interrupt();
    tables.add(v, consumers[v]);
  }
  LayoutProblem problem = tables.finish();
  forbid_masked_sums(graph, choices, problem);
  return problem;
}

}  // namespace karez::passes
