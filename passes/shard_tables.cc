// Tables of the planner. A node enters the table of a value only by the layouts it stands for there, its classes, which are fewer than its choices.
#include "passes/shard_tables.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>

namespace karez::passes {
namespace {

constexpr std::size_t most_cells = 1 << 20;  // of the table of one value, or of one link of a chain
constexpr std::size_t most_targets = 12;     // consumers that one table may hold: sets of targets grow with 2 to the number

// One node as the table of one value sees it.
struct Member {
  struct Class {
    int from = -1;             // the layout it gives the value, if it is the producer
    std::vector<int> targets;  // the layouts it wants the value in
    auto operator<=>(const Class&) const = default;
  };
  int node = 0;
  std::vector<Class> classes;
  std::vector<int> class_of;  // by choice
};

class Tables {
 public:
  Tables(const Graph& graph, const Choices& choices, TreePrices& prices, Crowds crowds)
      : graph_(graph),
        choices_(choices),
        prices_(prices),
        crowds_(crowds) {
    for (NodeId n : choices.ids()) {
      problem.sum.domain.push_back(static_cast<int>(choices[n].size()));
      std::vector<double> seconds;
      for (const NodeChoice& choice : choices[n]) seconds.push_back(choice.seconds);
      auto& cells = nodes_[seconds];
      if (!cells) cells = solve::factor({n.index}, seconds).cells;
      problem.sum.factors.push_back({{n.index}, cells});
    }
  }

  void add(ValueId value, const Wants& w) {
    table_ = &prices_.table(graph_.type(value), graph_.mesh(value));
    times_ = fills(graph_, value);
    std::vector<NodeId> nodes = {w.producer};
    for (const Use& use : w.uses) nodes.push_back(use.node);
    if (w.stored_like.valid()) nodes.push_back(w.stored_like);
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());

    int from = -1, set = 0;  // what is the same whatever is chosen
    for (const Layout& output : w.outputs) set = table_->with(set, table_->number(output));
    if (w.stored) set = table_->with(set, table_->number(*w.stored));
    std::vector<Member> members;
    if (Member producer = member_of(w.producer, w, from); producer.classes.size() == 1) from = producer.classes[0].from;
    std::size_t cells = 1;
    for (NodeId node : nodes) {
      Member member = member_of(node, w, from);
      if (member.classes.size() == 1) {
        set = unite(set, member.classes[0]);
        continue;
      }
      cells = std::min(cells * member.classes.size(), most_cells + 1);
      members.push_back(std::move(member));
    }
    if (members.empty()) {
      problem.constant += seconds(from, set);
    } else if (cells <= most_cells && members.size() <= most_targets) {
      add_factor(members, from, set);
    } else if (from >= 0) {
      add_each(members, from, set);
    } else {
      add_chain(members, from, set);
    }
  }

  LayoutProblem problem;

 private:
  // What `from` becomes at no cost need not be asked for, where that is what the value is made as.
  Member member_of(NodeId node, const Wants& w, int from) const {
    Member member{node.index, {}, {}};
    std::map<Member::Class, int> seen;
    for (const NodeChoice& choice : choices_[node]) {
      Member::Class one;
      if (node == w.producer) one.from = table_->number(choice.out(static_cast<std::size_t>(w.output)));
      for (const Use& use : w.uses)
        if (use.node == node) one.targets.push_back(table_->number(choice.in(static_cast<std::size_t>(use.operand))));
      if (node == w.stored_like) one.targets.push_back(table_->number(choice.out(0)));
      if (from >= 0) std::erase_if(one.targets, [&](int target) { return table_->seconds(from, table_->with(0, target)) == 0; });
      std::sort(one.targets.begin(), one.targets.end());
      one.targets.erase(std::unique(one.targets.begin(), one.targets.end()), one.targets.end());
      auto [at, fresh] = seen.try_emplace(one, static_cast<int>(seen.size()));
      if (fresh) member.classes.push_back(std::move(one));
      member.class_of.push_back(at->second);
    }
    return member;
  }

  double seconds(int from, int set) const { return times_ * table_->seconds(from, set); }

  int unite(int set, const Member::Class& one) const {
    for (int target : one.targets) set = table_->with(set, target);
    return set;
  }

  // Row-major over the members' classes.
  void fill(const std::vector<Member>& members, std::size_t level, int from, int set, std::vector<double>& cost) const {
    if (level == members.size()) return cost.push_back(seconds(from, set));
    for (const Member::Class& one : members[level].classes) fill(members, level + 1, one.from >= 0 ? one.from : from, unite(set, one), cost);
  }

  // The price of the members' joint classes. Values that are asked alike share cells.
  void add_factor(const std::vector<Member>& members, int from, int set) {
    solve::Factor factor;
    Asked asked{table_, times_, from, set, {}};
    for (const Member& member : members) {
      factor.scope.push_back(member.node);
      asked.members.emplace_back(member.classes, member.class_of);
    }
    auto [at, fresh] = known_.try_emplace(std::move(asked));
    if (fresh) {
      auto cells = std::make_shared<solve::CostCells>();
      for (const Member& member : members) cells->classes.push_back(member.class_of);
      fill(members, 0, from, set, cells->cost);
      at->second = std::move(cells);
    }
    factor.cells = at->second;
    problem.sum.factors.push_back(std::move(factor));
  }

  // One link of a chain: the sets that may stand before it and after it.
  struct Link {
    std::vector<int> after;             // sets
    std::vector<std::vector<int>> way;  // by position before and class: position after, -1 where it is forbidden
  };
  struct Few {  // a set and how many of it the chain chose to remember
    int set, count;
    auto operator<=>(const Few&) const = default;
  };

  // The links of a chain that remembers `most` layouts beside `base`; nothing if that is too large or too little.
  std::optional<std::vector<Link>> links_of(const std::vector<const Member*>& consumers, int base, int most) const {
    std::vector<Link> links;
    std::vector<Few> before = {{base, 0}};
    for (const Member* consumer : consumers) {
      Link link;
      std::map<Few, int> seen;
      std::vector<Few> after;
      for (Few few : before) {
        auto& row = link.way.emplace_back();
        for (const Member::Class& one : consumer->classes) {
          Few next = few;
          bool forbidden = false;
          for (int target : one.targets) {
            int larger = table_->with(next.set, target);
            if (larger == next.set) continue;
            if (next.count < most) {
              next = {larger, next.count + 1};
            } else {
              forbidden = crowds_ == Crowds::forbidden;
            }
          }
          row.push_back(-1);
          if (forbidden) continue;
          auto [at, fresh] = seen.try_emplace(next, static_cast<int>(seen.size()));
          if (fresh) after.push_back(next);
          row.back() = at->second;
        }
        if (before.size() * consumer->classes.size() * after.size() > most_cells) return std::nullopt;
      }
      if (after.empty()) return std::nullopt;  // everything is forbidden
      for (Few few : after) link.after.push_back(few.set);
      before = std::move(after);
      links.push_back(std::move(link));
    }
    return links;
  }

  void add_chain(const std::vector<Member>& members, int from, int base) {
    ++problem.crowds;
    const Member* producer = nullptr;
    std::vector<const Member*> consumers;
    for (const Member& member : members) {  // what a producer wants itself is what it has
      if (member.classes[0].from >= 0) producer = &member;
      else consumers.push_back(&member);
    }
    std::optional<std::vector<Link>> links;
    for (int most = 4; !links && most > 0; --most) links = links_of(consumers, base, most);
    std::vector<int> sets = {base};
    int last = -1;
    if (links) {
      for (std::size_t k = 0; k < links->size(); ++k) {
        const Link& link = (*links)[k];
        solve::Factor factor;
        auto cells = std::make_shared<solve::CostCells>();
        if (last >= 0) {
          factor.scope.push_back(last);
          cells->classes.emplace_back();
        }
        factor.scope.push_back(consumers[k]->node);
        cells->classes.push_back(consumers[k]->class_of);
        last = static_cast<int>(problem.sum.domain.size());
        problem.sum.domain.push_back(static_cast<int>(link.after.size()));
        factor.scope.push_back(last);
        cells->classes.emplace_back();
        for (const auto& row : link.way)
          for (int way : row)
            for (std::size_t a = 0; a < link.after.size(); ++a) cells->cost.push_back(way == static_cast<int>(a) ? 0 : INFINITY);
        factor.cells = std::move(cells);
        problem.sum.factors.push_back(std::move(factor));
        sets = link.after;
      }
    } else if (crowds_ == Crowds::forbidden) {  // too many layouts even to remember one: charged by consumer, which is never too little
      for (const Member* consumer : consumers) add_pair(producer, *consumer, from);
    }
    solve::Factor price;
    auto cells = std::make_shared<solve::CostCells>();
    if (producer != nullptr) {
      price.scope.push_back(producer->node);
      cells->classes.push_back(producer->class_of);
    }
    if (last >= 0) {
      price.scope.push_back(last);
      cells->classes.emplace_back();
    }
    for (std::size_t p = 0; p < (producer != nullptr ? producer->classes.size() : 1); ++p)
      for (int set : sets) cells->cost.push_back(seconds(producer != nullptr ? producer->classes[p].from : from, set));
    if (price.scope.empty()) {
      problem.constant += cells->cost[0];
    } else {
      price.cells = std::move(cells);
      problem.sum.factors.push_back(std::move(price));
    }
  }

  void add_pair(const Member* producer, const Member& consumer, int from) {
    std::vector<Member> pair;
    if (producer != nullptr) pair.push_back(*producer);
    pair.push_back(consumer);
    add_factor(pair, from, 0);
  }

  // A crowd around a value that is made in one way: each asks for itself, of which all together cost at least the mean and at most the sum.
  void add_each(const std::vector<Member>& members, int from, int set) {
    ++problem.crowds;
    for (const Member& member : members) {
      solve::Factor each;
      auto cells = std::make_shared<solve::CostCells>();
      each.scope = {member.node};
      cells->classes = {member.class_of};
      for (const Member::Class& one : member.classes)
        cells->cost.push_back(crowds_ == Crowds::forbidden ? seconds(from, unite(0, one))
                                                           : seconds(from, unite(set, one)) / static_cast<double>(members.size()));
      each.cells = std::move(cells);
      problem.sum.factors.push_back(std::move(each));
    }
    if (crowds_ == Crowds::forbidden) problem.constant += seconds(from, set);
  }

  // All that cells depend on.
  struct Asked {
    const TransitionTable* table;
    int times, from, set;
    std::vector<std::pair<std::vector<Member::Class>, std::vector<int>>> members;
    auto operator<=>(const Asked&) const = default;
  };

  const Graph& graph_;
  const Choices& choices_;
  TreePrices& prices_;
  Crowds crowds_;
  TransitionTable* table_ = nullptr;  // of the value at hand
  int times_ = 1;                     // that it is made in a launch
  std::map<Asked, std::shared_ptr<const solve::CostCells>> known_;
  std::map<std::vector<double>, std::shared_ptr<const solve::CostCells>> nodes_;
};

}  // namespace

ById<ValueId, Wants> wants_of(const Graph& graph) {
  auto uses = uses_of(graph);
  ById<ValueId, Wants> wants(graph.values.size());
  for (ValueId v : wants.ids()) {
    wants[v].producer = graph.values[v].producer;
    wants[v].output = graph.values[v].output;
    wants[v].uses = uses[v];
  }
  for (const Output& output : graph.outputs) wants[output.value].outputs.push_back(layout_of(graph, output));
  for (const Variable& variable : graph.variables) {
    if (!variable.updated.valid()) continue;
    Wants& w = wants[variable.updated];
    if (variable.stored) {
      w.stored = variable.stored;
    } else if (variable.read.valid()) {
      w.stored_like = graph.value(variable.read).producer;
    } else {
      w.stored = broadcast_layout(graph.meshes[static_cast<std::size_t>(variable.mesh)]);
    }
  }
  return wants;
}

LayoutProblem layout_problem(const Graph& graph, const Choices& choices, TreePrices& prices, Crowds crowds) {
  Tables tables(graph, choices, prices, crowds);
  auto wants = wants_of(graph);
  for (ValueId v : wants.ids()) tables.add(v, wants[v]);
  return std::move(tables.problem);
}

}  // namespace karez::passes
