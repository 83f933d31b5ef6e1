// shard: the choice of layouts as a sum of tables, minimised exactly where that is possible.
#include "passes/shard.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "passes/order.h"
#include "solve/min_sum.h"

namespace karez {
namespace {

Layout entries(const std::vector<Sharding>& axes, bool out, std::size_t index) {
  Layout layout;
  for (const Sharding& sharding : axes) layout.push_back(out ? sharding.out[index] : sharding.in[index]);
  return layout;
}

// Compute seconds of the busiest device: position 0 has the longer parts everywhere.
double compute_seconds(const Graph& graph, NodeId id, const NodeChoice& choice, const CostTable& costs) {
  NodeView view{&graph, id};
  const Node& node = view.node();
  const std::string& op = node.op->name;
  if (may_alias(node) || op == "variable" || op == "constant" || op == "iota") return 0;
  const Mesh& mesh = graph.mesh(node.outputs[0]);
  std::vector<TensorType> in, out;
  auto local = [&](ValueId value, const Layout& layout) {
    const TensorType& type = graph.type(value);
    return TensorType{type.dtype, shape_of(local_box(type.shape, mesh, layout, 0))};
  };
  for (std::size_t i = 0; i < node.inputs.size(); ++i) in.push_back(local(node.inputs[i], choice.in(i)));
  for (std::size_t i = 0; i < node.outputs.size(); ++i) out.push_back(local(node.outputs[i], choice.out(i)));
  Cost cost = cost_of(*node.op, in, out, node.attrs);
  return costs.seconds(cost.work, cost.flops, cost.bytes);
}

// What one value asks: who makes it, in which layouts it is wanted, as functions of the nodes' choices.
struct Wants {
  int producer = 0, output = 0;
  std::vector<Use> uses;
  bool broadcast = false;        // a graph output
  int stored_like = -1;          // an updated variable goes to the layout of this node's output (its `variable` node)
  std::optional<Layout> stored;  // or to this one
};

std::vector<Wants> wants_of(const Graph& graph) {
  auto uses = uses_of(graph);
  std::vector<Wants> wants(graph.values.size());
  for (std::size_t v = 0; v < wants.size(); ++v) {
    wants[v].producer = graph.values[v].producer.index;
    wants[v].output = graph.values[v].output;
    wants[v].uses = uses[v];
  }
  for (const Output& output : graph.outputs) wants[static_cast<std::size_t>(output.value.index)].broadcast = true;
  for (const Variable& variable : graph.variables) {
    if (!variable.updated.valid()) continue;
    Wants& w = wants[static_cast<std::size_t>(variable.updated.index)];
    if (variable.stored) {
      w.stored = variable.stored;
    } else if (variable.read.valid()) {
      w.stored_like = graph.value(variable.read).producer.index;
    } else {
      w.stored = broadcast_layout(graph.meshes[static_cast<std::size_t>(variable.mesh)]);
    }
  }
  return wants;
}

using Choices = std::vector<std::vector<NodeChoice>>;

double price_value(const Graph& graph, ValueId value, const Wants& w, const Choices& choices, const std::vector<int>& chosen, TreePrices& prices) {
  auto pick = [&](int node) -> const NodeChoice& { return choices[static_cast<std::size_t>(node)][static_cast<std::size_t>(chosen[static_cast<std::size_t>(node)])]; };
  std::vector<Layout> targets;
  for (const Use& use : w.uses) targets.push_back(pick(use.node.index).in(static_cast<std::size_t>(use.operand)));
  if (w.broadcast) targets.push_back(broadcast_layout(graph.mesh(value)));
  if (w.stored) targets.push_back(*w.stored);
  if (w.stored_like >= 0) targets.push_back(pick(w.stored_like).out(0));
  return prices.seconds(graph.type(value), graph.mesh(value), pick(w.producer).out(static_cast<std::size_t>(w.output)), std::move(targets));
}

// The table of one value over the nodes it concerns. A node enters it only by the layouts it stands for, which are fewer than its
// choices: where the full table would be large, a stand-in variable per node carries the layout alone.
class Tables {
 public:
  Tables(const Graph& graph, const Choices& choices, TreePrices& prices) : graph_(graph), choices_(choices), prices_(prices) {
    for (const auto& list : choices) problem_.domain.push_back(static_cast<int>(list.size()));
    for (std::size_t n = 0; n < choices.size(); ++n) {
      solve::Factor unary{{static_cast<int>(n)}, {}};
      for (const NodeChoice& choice : choices[n]) unary.cost.push_back(choice.seconds);
      problem_.factors.push_back(std::move(unary));
    }
  }

  void add(ValueId value, const Wants& w) {
    std::vector<int> nodes = {w.producer};
    for (const Use& use : w.uses) nodes.push_back(use.node.index);
    if (w.stored_like >= 0) nodes.push_back(w.stored_like);
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    std::vector<std::vector<int>> classes, examples;  // by scope node: class of each choice; one choice of each class
    double full = 1;
    for (int node : nodes) {
      std::map<std::vector<Layout>, int> seen;
      std::vector<int> of, example;
      for (std::size_t k = 0; k < choices_[static_cast<std::size_t>(node)].size(); ++k) {
        auto [at, fresh] = seen.try_emplace(view_of(node, static_cast<int>(k), w), static_cast<int>(seen.size()));
        if (fresh) example.push_back(static_cast<int>(k));
        of.push_back(at->second);
      }
      full *= static_cast<double>(of.size());
      classes.push_back(std::move(of));
      examples.push_back(std::move(example));
    }
    // Nodes that have one class only do not matter for the table.
    solve::Factor factor;
    std::vector<std::size_t> kept;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      if (examples[i].size() > 1) kept.push_back(i);
    constexpr double small = 1 << 15;
    bool stand_ins = full > small;
    for (std::size_t i : kept) factor.scope.push_back(stand_ins ? stand_in(nodes[i], classes[i], examples[i].size()) : nodes[i]);

    std::vector<int> chosen(choices_.size(), 0);
    std::vector<double> by_class;
    std::vector<std::size_t> sizes;
    std::size_t cells = 1;
    for (std::size_t i : kept) sizes.push_back(examples[i].size()), cells *= examples[i].size();
    for (std::size_t cell = 0; cell < cells; ++cell) {
      std::size_t rest = cell;
      for (std::size_t k = kept.size(); k-- > 0; rest /= sizes[k])
        chosen[static_cast<std::size_t>(nodes[kept[k]])] = examples[kept[k]][rest % sizes[k]];
      by_class.push_back(price_value(graph_, value, w, choices_, chosen, prices_));
    }
    if (kept.empty()) {
      constant_ += by_class[0];
      return;
    }
    if (stand_ins) {
      factor.cost = std::move(by_class);
    } else {
      std::size_t all = 1;
      for (int node : factor.scope) all *= choices_[static_cast<std::size_t>(node)].size();
      for (std::size_t cell = 0; cell < all; ++cell) {
        std::size_t rest = cell, at = 0, step = 1;
        for (std::size_t k = kept.size(); k-- > 0;) {
          std::size_t size = classes[kept[k]].size();
          at += static_cast<std::size_t>(classes[kept[k]][rest % size]) * step;
          step *= sizes[k];
          rest /= size;
        }
        factor.cost.push_back(by_class[at]);
      }
    }
    problem_.factors.push_back(std::move(factor));
  }

  const solve::MinSumProblem& problem() const { return problem_; }
  double constant() const { return constant_; }

 private:
  // The layouts of this value that a choice of the node stands for.
  std::vector<Layout> view_of(int node, int choice, const Wants& w) const {
    const NodeChoice& c = choices_[static_cast<std::size_t>(node)][static_cast<std::size_t>(choice)];
    std::vector<Layout> layouts;
    if (node == w.producer) layouts.push_back(c.out(static_cast<std::size_t>(w.output)));
    for (const Use& use : w.uses)
      if (use.node.index == node) layouts.push_back(c.in(static_cast<std::size_t>(use.operand)));
    if (node == w.stored_like) layouts.push_back(c.out(0));
    return layouts;
  }

  int stand_in(int node, const std::vector<int>& classes, std::size_t count) {
    auto [at, fresh] = stand_ins_.try_emplace({node, classes}, static_cast<int>(problem_.domain.size()));
    if (!fresh) return at->second;
    problem_.domain.push_back(static_cast<int>(count));
    solve::Factor link{{node, at->second}, {}};
    for (int of : classes)
      for (std::size_t k = 0; k < count; ++k) link.cost.push_back(of == static_cast<int>(k) ? 0 : INFINITY);
    problem_.factors.push_back(std::move(link));
    return at->second;
  }

  const Graph& graph_;
  const Choices& choices_;
  TreePrices& prices_;
  solve::MinSumProblem problem_;
  std::map<std::pair<int, std::vector<int>>, int> stand_ins_;
  double constant_ = 0;
};

}  // namespace

Layout NodeChoice::in(std::size_t operand) const { return entries(axes, false, operand); }
Layout NodeChoice::out(std::size_t result) const { return entries(axes, true, result); }

std::vector<NodeChoice> choices_of(const Graph& graph, NodeId id, const CostTable& costs) {
  const Node& node = graph.node(id);
  const Mesh& mesh = graph.mesh(node.outputs[0]);
  std::vector<std::optional<Layout>> fixed;
  for (ValueId out : node.outputs) fixed.push_back(graph.value(out).layout);
  if (node.op->name == "variable")
    for (const Variable& variable : graph.variables)
      if (variable.name == node.attrs.text("name") && variable.stored) fixed[0] = variable.stored;
  std::vector<NodeChoice> choices;
  std::set<Layout> legal;
  std::size_t wrong = fixed.size();
  for (auto& axes : mesh_shardings({&graph, id}, mesh)) {
    NodeChoice choice{std::move(axes), 0};
    bool fits = true;
    for (std::size_t o = 0; o < fixed.size(); ++o)
      if (fixed[o] && *fixed[o] != choice.out(o)) fits = false, wrong = std::min(wrong, o);
    if (wrong < fixed.size()) legal.insert(choice.out(wrong));
    if (!fits) continue;
    choice.seconds = compute_seconds(graph, id, choice, costs);
    choices.push_back(std::move(choice));
  }
  if (choices.empty()) {
    legal.clear();
    std::size_t o = std::min(wrong, fixed.size() - 1);
    for (const auto& axes : mesh_shardings({&graph, id}, mesh)) legal.insert(entries(axes, true, o));
    fail(describe(graph, id), " cannot give ", print(graph.type(node.outputs[o])), " the layout ", fixed[o] ? print(*fixed[o]) : std::string("asked for"), " on ",
         print(mesh), "; it can give ", join(legal, ", ", [](const Layout& layout) { return print(layout); }));
  }
  return choices;
}

double TreePrices::seconds(const TensorType& type, const Mesh& mesh, const Layout& from, std::vector<Layout> targets) {
  std::sort(targets.begin(), targets.end());
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  std::erase(targets, from);
  if (targets.empty()) return 0;
  auto& known = known_[cat(print(type), print(mesh))];
  std::vector<Layout> key = {from};
  key.insert(key.end(), targets.begin(), targets.end());
  auto [at, fresh] = known.try_emplace(std::move(key), 0.0);
  if (fresh) at->second = transition_tree(type, mesh, from, targets, costs_).seconds;
  return at->second;
}

double price(const Graph& graph, const Choices& choices, const std::vector<int>& chosen, TreePrices& prices) {
  double total = 0;
  for (std::size_t n = 0; n < choices.size(); ++n) total += choices[n][static_cast<std::size_t>(chosen[n])].seconds;
  auto wants = wants_of(graph);
  for (std::size_t v = 0; v < wants.size(); ++v) total += price_value(graph, ValueId(v), wants[v], choices, chosen, prices);
  return total;
}

void shard(Compilation& c) {
  Graph& graph = c.graph;
  Choices choices;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) choices.push_back(choices_of(graph, NodeId(n), c.options.costs));
  TreePrices prices(c.options.costs);
  Tables tables(graph, choices, prices);
  auto wants = wants_of(graph);
  for (std::size_t v = 0; v < wants.size(); ++v) tables.add(ValueId(v), wants[v]);
  solve::MinSumResult result = solve::min_sum(tables.problem());
  require(result.feasible, "shard: no choice of layouts satisfies everything that is fixed");
  c.cost = result.cost + tables.constant();
  c.cost_bound = result.lower_bound + tables.constant();
  c.optimal = result.optimal;
  double gap = c.cost > 0 ? 100 * (c.cost - c.cost_bound) / c.cost : 0;
  c.shard_report = cat(c.optimal ? std::string("optimal") : cat("gap <= ", karez::number(std::ceil(gap * 10) / 10), " %"), " (", result.method, ")");
  c.wanted.assign(graph.nodes.size(), {});
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const NodeChoice& choice = choices[n][static_cast<std::size_t>(result.choice[n])];
    for (std::size_t i = 0; i < graph.nodes[n].inputs.size(); ++i) c.wanted[n].push_back(choice.in(i));
    for (std::size_t o = 0; o < graph.nodes[n].outputs.size(); ++o) graph.value(graph.nodes[n].outputs[o]).layout = choice.out(o);
  }
  for (Variable& variable : graph.variables)
    if (!variable.stored) variable.stored = variable.read.valid() ? *graph.value(variable.read).layout : broadcast_layout(graph.meshes[static_cast<std::size_t>(variable.mesh)]);
}

}  // namespace karez
