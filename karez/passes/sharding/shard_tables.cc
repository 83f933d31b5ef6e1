// Builds the tables of the planner. In the table of a value, a node has one class for all choices with the same layouts
// of the value, so it has fewer classes than choices.
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

constexpr std::size_t max_cells =
    1 << 12;  // limit for the table of one value, so at most 12 consumers; a chain replaces a larger table

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

  void add(ValueId value, const ConsumerLayouts& w) {
    if (made_whole_in_setup(graph_, w, choices_)) return;
    table_ = &prices_.table(graph_.type(value), graph_.mesh(value));
    times_ = fills_per_launch(graph_, value);
    std::vector<NodeId> nodes = {w.producer};
    for (const Use& use : w.uses) nodes.push_back(use.node);
    nodes.insert(nodes.end(), w.stored_as_outputs_of.begin(), w.stored_as_outputs_of.end());
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());

    int fixed_layout = -1, set = 0;  // layouts that are equal for all choices
    for (const Layout& output : w.outputs) set = table_->with(set, table_->number(output));
    for (const Layout& stored : w.stored) set = table_->with(set, table_->number(stored));
    std::vector<TableMember> members;
    if (TableMember producer = member_of(w.producer, w, fixed_layout); producer.classes.size() == 1)
      fixed_layout = producer.classes[0].from;
    std::size_t cells = 1;
    for (NodeId node : nodes) {
      TableMember member = member_of(node, w, fixed_layout);
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
  // `from`: the layout of the value if it is always the same, otherwise -1. Targets that it becomes at no cost are left
  // out.
  TableMember member_of(NodeId node, const ConsumerLayouts& w, int fixed_layout) const {
    TableMember member{node.index, {}, {}};
    std::map<TableMember::Class, int> class_numbers;
    const auto by_node = [](const Use& a, const Use& b) { return a.node < b.node; };  // uses are sorted by node
    const auto [first, last] = std::equal_range(w.uses.begin(), w.uses.end(), Use{node, 0}, by_node);
    for (const NodeChoice& choice : choices_[node]) {
      TableMember::Class member_class;
      if (node == w.producer) member_class.from = table_->number(choice.out(static_cast<std::size_t>(w.output)));
      for (auto use = first; use != last; ++use)
        member_class.targets.push_back(table_->number(choice.in(static_cast<std::size_t>(use->operand))));
      if (std::find(w.stored_as_outputs_of.begin(), w.stored_as_outputs_of.end(), node) != w.stored_as_outputs_of.end())
        member_class.targets.push_back(table_->number(choice.out(0)));
      if (fixed_layout >= 0)
        std::erase_if(member_class.targets,
                      [&](int target) { return table_->seconds(fixed_layout, table_->with(0, target)) == 0; });
      std::sort(member_class.targets.begin(), member_class.targets.end());
      member_class.targets.erase(std::unique(member_class.targets.begin(), member_class.targets.end()),
                                 member_class.targets.end());
      auto [at, inserted] = class_numbers.try_emplace(member_class, static_cast<int>(class_numbers.size()));
      if (inserted) member.classes.push_back(std::move(member_class));
      member.class_of.push_back(at->second);
    }
    return member;
  }

  double seconds(int fixed_layout, int set) const { return times_ * table_->seconds(fixed_layout, set); }

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
    for (const TableMember& member : members) {  // the targets of the producer are the layouts that it produces
      if (member.classes[0].from >= 0) producer = &member;
      else consumers.push_back(&member);
    }
    auto [known, inserted] = chains_.try_emplace(key_of(members, -1, base));
    LayoutChains& chains = known->second;
    if (inserted) chains = chains_of({*table_, *producer, consumers, base, times_}, prices_, overflow_);
    problem.inexact_values += !chains.exact;
    if (chains.chains[0].links.empty() &&
        overflow_ == ChainOverflow::forbidden)  // too many layouts to track even one: each consumer pays for its own
                                                // transitions, which is never too little
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

  // Many consumers of a value with one layout: each has a table of its own. All together cost at least the mean of
  // these and at most the sum.
  void add_each(const std::vector<TableMember>& members, int fixed_layout, int set) {
    ++problem.inexact_values;
    for (const TableMember& member : members) {
      solve::Factor each;
      auto cells = std::make_shared<solve::CostCells>();
      each.scope = {member.node};
      cells->classes = {member.class_of};
      for (const TableMember::Class& member_class : member.classes)
        cells->cost.push_back(overflow_ == ChainOverflow::forbidden ? seconds(fixed_layout, unite(0, member_class))
                                                                    : seconds(fixed_layout, unite(set, member_class)) /
                                                                          static_cast<double>(members.size()));
      each.cells = std::move(cells);
      problem.sum.factors.push_back(std::move(each));
    }
    if (overflow_ == ChainOverflow::forbidden) problem.constant += seconds(fixed_layout, set);
  }

  // Everything on which the cells depend.
  struct TableKey {
    const TransitionTable* table;
    int times, fixed_layout, set;
    std::vector<std::pair<std::vector<TableMember::Class>, std::vector<int>>> members;
    auto operator<=>(const TableKey&) const = default;
  };
  TableKey key_of(const std::vector<TableMember>& members, int fixed_layout, int set) const {
    TableKey key{table_, times_, fixed_layout, set, {}};
    for (const TableMember& member : members) key.members.emplace_back(member.classes, member.class_of);
    return key;
  }

  const Graph& graph_;
  const Choices& choices_;
  TransitionCostCache& prices_;
  ChainOverflow overflow_;
  TransitionTable* table_ = nullptr;  // table of the current value
  int times_ = 1;                     // number of times that a launch computes the current value
  std::map<TableKey, std::shared_ptr<const solve::CostCells>> cells_of_key_;
  std::map<TableKey, LayoutChains> chains_;
  std::map<std::vector<double>, std::shared_ptr<const solve::CostCells>> nodes_;
  std::vector<int> position_;  // by variable: the node after which it is ordered
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
    ConsumerLayouts& w = consumers[variable.updated];
    if (variable.stored) {
      w.stored.push_back(*variable.stored);
    } else if (variable.read.valid()) {
      w.stored_as_outputs_of.push_back(graph.value(variable.read).producer);
    } else {
      w.stored.push_back(broadcast_layout(graph.meshes[static_cast<std::size_t>(variable.mesh)]));
    }
  }
  return consumers;
}

std::set<Layout> targets_of(const ConsumerLayouts& w, const Choices& choices, const ById<NodeId, int>& chosen) {
  auto choice_of = [&](NodeId node) -> const NodeChoice& {
    return choices[node][static_cast<std::size_t>(chosen[node])];
  };
  std::set<Layout> targets;
  for (const Use& use : w.uses) targets.insert(choice_of(use.node).in(static_cast<std::size_t>(use.operand)));
  targets.insert(w.outputs.begin(), w.outputs.end());
  targets.insert(w.stored.begin(), w.stored.end());
  for (NodeId variable_node : w.stored_as_outputs_of) targets.insert(choice_of(variable_node).out(0));
  return targets;
}

const Layout& producer_layout(const ConsumerLayouts& w, const Choices& choices, const ById<NodeId, int>& chosen) {
  return choices[w.producer][static_cast<std::size_t>(chosen[w.producer])].out(static_cast<std::size_t>(w.output));
}

bool made_whole_in_setup(const Graph& graph, const ConsumerLayouts& w, const Choices& choices) {
  if (!graph.node(w.producer).setup) return false;
  const auto& producer_choices = choices[w.producer];
  return std::all_of(producer_choices.begin(), producer_choices.end(), [&](const NodeChoice& producer_choice) {
    const Layout& layout = producer_choice.out(static_cast<std::size_t>(w.output));
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
