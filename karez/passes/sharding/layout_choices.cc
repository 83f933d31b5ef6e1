// Computes the product of a node's shardings over the mesh axes, restricted to the layouts that the user has fixed.
#include "karez/passes/sharding/layout_choices.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "karez/base/text.h"
#include "karez/passes/sharding/device_cost.h"
#include "karez/sbp/transfer.h"

namespace karez::passes {
namespace {

Layout entries(const std::vector<Sharding>& axes, bool out, std::size_t index) {
  Layout layout;
  for (const Sharding& sharding : axes) layout.push_back(out ? sharding.out[index] : sharding.in[index]);
  return layout;
}

// All choices for a node on its mesh: the product of its shardings; for a transfer, all pairs of layouts on its two
// meshes.
std::vector<NodeChoice> all_choices(const Graph& graph, NodeId id, const SumRules& rules) {
  const Node& node = graph.node(id);
  std::vector<NodeChoice> choices;
  if (node.op->role == Role::transfer) {
    const TensorType& type = graph.type(node.inputs[0]);
    const auto from = layouts_without_partial(type, graph.mesh(node.inputs[0])),
               to = layouts_without_partial(type, graph.mesh(node.outputs[0]));
    for (const Layout& in : from)
      for (const Layout& out : to) choices.push_back({{{in}, {out}}, 0});
    return choices;
  }
  std::vector<std::shared_ptr<const Sums>> known_sums;
  for (const auto& axes : mesh_shardings({&graph, id}, graph.mesh(node.outputs[0]))) {
    NodeChoice::Layouts node_layouts;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) node_layouts.ins.push_back(entries(axes, false, i));
    for (std::size_t o = 0; o < node.outputs.size(); ++o) node_layouts.outs.push_back(entries(axes, true, o));
    std::optional<Sums> sums = rules.in(id, node_layouts.ins, node_layouts.outs);
    if (!sums) continue;
    choices.emplace_back(std::move(node_layouts), 0.0);
    if (!sums->matter()) continue;
    auto same = std::find_if(known_sums.begin(), known_sums.end(), [&](const auto& one) { return *one == *sums; });
    if (same == known_sums.end()) same = known_sums.insert(same, std::make_shared<const Sums>(*std::move(sums)));
    choices.back().sums = *same;
  }
  return choices;
}

// For each node: whether it may be split along each axis of its mesh; empty if all axes are allowed. If the planner
// chooses the layout of an output, the attribute `planned` of its `layout` node names the axes along which the caller's
// arguments are split. Neither the output nor the values from which it is computed may be split along any other axis,
// because a result that is split along it would have to be gathered. The traversal stops at layouts that the user
// fixed.
using AxisLimits = ById<NodeId, std::vector<bool>>;
AxisLimits axis_limits(const Graph& graph) {
  AxisLimits limits(graph.nodes.size());
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const NodeId n(i);
    const Node& node = graph.node(n);
    if (node.op->name == "layout" && node.attrs.has("planned")) {
      const std::string names = cat("+", node.attrs.text("planned"), "+");
      for (const MeshAxis& axis : graph.mesh(node.outputs[0]).axes)
        limits[n].push_back(names.find(cat("+", axis.name, "+")) != names.npos);
    }
    if (limits[n].empty()) continue;
    for (ValueId in : node.inputs) {
      const Value& value = graph.value(in);
      if (value.layout || !value.producer.valid() || value.mesh != graph.value(node.outputs[0]).mesh) continue;
      std::vector<bool>& limit = limits[value.producer];
      if (limit.empty()) limit = limits[n];
      else std::transform(limit.begin(), limit.end(), limits[n].begin(), limit.begin(), std::logical_and<bool>());
    }
  }
  return limits;
}

// Checks only the results. This suffices because a result of split operands is split or Partial, and the operand of a
// transfer is on another mesh.
bool respects_limit(const std::vector<bool>& limit, const NodeChoice& choice) {
  for (const Layout& layout : choice.outs())
    for (std::size_t axis = 0; axis < layout.size(); ++axis)
      if (!limit[axis] && !layout[axis].is_broadcast()) return false;
  return true;
}

void apply_limit(const std::vector<bool>& limit, std::vector<NodeChoice>& choices) {
  if (limit.empty() ||
      std::none_of(choices.begin(), choices.end(), [&](const NodeChoice& one) { return respects_limit(limit, one); }))
    return;
  std::erase_if(choices, [&](const NodeChoice& one) { return !respects_limit(limit, one); });
}

bool is_partial(const Layout& layout) {
  return std::any_of(layout.begin(), layout.end(), [](const Sbp& entry) { return entry.is_partial(); });
}

// For a state node, `stored` is the fixed layout of its variable.
std::vector<NodeChoice> choices_with(const Graph& graph, NodeId id, const std::optional<Layout>& stored,
                                     const CostTable& costs, const SumRules& rules, const FusedValues& fused,
                                     const std::vector<bool>& limit) {
  const Node& node = graph.node(id);
  const Mesh& mesh = graph.mesh(node.outputs[0]);
  std::vector<std::optional<Layout>> fixed;
  for (ValueId out : node.outputs) fixed.push_back(graph.value(out).layout);
  if (stored) fixed[0] = stored;
  std::vector<NodeChoice> choices;
  std::size_t first_mismatch = fixed.size();
  std::vector<NodeChoice> all_options = all_choices(graph, id, rules);
  if (node.attrs.has("planned"))
    std::erase_if(all_options, [&](const NodeChoice& choice) { return is_partial(choice.out(0)); });
  for (NodeChoice& choice : all_options) {
    bool matches = true;
    for (std::size_t o = 0; o < fixed.size(); ++o)
      if (fixed[o] && *fixed[o] != choice.out(o)) matches = false, first_mismatch = std::min(first_mismatch, o);
    if (!matches) continue;
    choice.seconds = node.acts * choice_seconds(graph, id, choice, costs, fused);
    choices.push_back(choice);
  }
  if (choices.empty()) {
    std::set<Layout> legal;
    std::size_t o = std::min(first_mismatch, fixed.size() - 1);
    for (const NodeChoice& choice : all_options) legal.insert(choice.out(o));
    fail(ErrorKind::layout, describe(graph, id), " cannot produce ", print(graph.type(node.outputs[o])), " in ",
         fixed[o] ? cat("the layout ", print(*fixed[o])) : std::string("the required layout"), " on ", print(mesh),
         "; it can produce ", join(legal, ", ", [](const Layout& layout) { return print(layout); }));
  }
  apply_limit(limit, choices);
  return choices;
}

// If a value costs nothing in Broadcast, it is made Broadcast: every split of it is then free, so no other choice is
// ever better, unless the value fuses and would have to be stored. This matters for constants and views of them, which
// would otherwise couple the choices of all layers that read them.
void replicate_free_nodes(const Graph& graph, const FusedValues& fused, Choices& choices) {
  ById<ValueId, bool> is_free(graph.values.size(), false);  // Broadcast at no cost
  auto whole = [](const std::vector<Layout>& layouts) {
    return std::all_of(layouts.begin(), layouts.end(), [](const Layout& l) {
      return std::all_of(l.begin(), l.end(), [](Sbp entry) { return entry.is_broadcast(); });
    });
  };
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.node(n);
    if (node.op->role != Role::constant && node.op->role != Role::window && node.op->role != Role::compute) continue;
    if (!std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId in) { return is_free[in]; })) continue;
    if (std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return fused_value(fused, v).fuses(); }))
      continue;
    for (const NodeChoice& choice : choices[n]) {
      if (choice.seconds > 0 || !whole(choice.ins()) || !whole(choice.outs())) continue;
      choices[n] = {NodeChoice(choice)};
      for (ValueId out : node.outputs) is_free[out] = true;
      break;
    }
  }
}

void share_layouts(Choices& choices) {
  using Layouts = std::shared_ptr<const NodeChoice::Layouts>;
  auto precedes = [](const Layouts& a, const Layouts& b) { return *a < *b; };
  std::set<Layouts, decltype(precedes)> known_layouts(precedes);
  for (auto& list : choices)
    for (NodeChoice& choice : list) choice.layouts = *known_layouts.insert(choice.layouts).first;
}

}  // namespace

double choice_seconds(const Graph& graph, NodeId id, const NodeChoice& choice, const CostTable& costs,
                      const FusedValues& fused) {
  const Node& node = graph.node(id);
  if (node.op->role != Role::transfer) return device_seconds(graph, id, choice.ins(), choice.outs(), costs, fused);
  return transfer_seconds(graph.type(node.inputs[0]), {graph.mesh(node.inputs[0]), choice.in(0)},
                          {graph.mesh(node.outputs[0]), choice.out(0)}, costs);
}

bool is_planned(const Graph& graph, const Output& output) {
  const NodeId producer = graph.value(output.value).producer;
  return !output.layout && producer.valid() && graph.node(producer).op->name == "layout" &&
         graph.node(producer).attrs.has("planned");
}

std::vector<NodeChoice> choices_of(const Graph& graph, NodeId id, const CostTable& costs, const FusedValues& fused) {
  return choices_of(graph, id, costs, SumRules(graph), fused);
}

std::vector<NodeChoice> choices_of(const Graph& graph, NodeId id, const CostTable& costs, const SumRules& rules,
                                   const FusedValues& fused) {
  std::optional<Layout> stored;
  if (const Node& node = graph.node(id); node.op->role == Role::state)
    for (const Variable& variable : graph.variables)
      if (variable.name == node.attrs.text("name") && variable.stored) stored = variable.stored;
  return choices_with(graph, id, stored, costs, rules, fused, axis_limits(graph)[id]);
}

Choices choices_of(const Graph& graph, const CostTable& costs, const FusedValues& fused) {
  std::map<std::string_view, const Layout*> stored;  // by name of the variable
  for (const Variable& variable : graph.variables)
    if (variable.stored) stored[variable.name] = &*variable.stored;
  Choices choices;
  const SumRules rules(graph);
  const AxisLimits limits = axis_limits(graph);
  for (NodeId n : graph.nodes.ids()) {
    const Node& node = graph.node(n);
    const auto at = node.op->role == Role::state ? stored.find(node.attrs.text("name")) : stored.end();
    choices.push_back(choices_with(graph, n, at == stored.end() ? std::nullopt : std::optional(*at->second), costs,
                                   rules, fused, limits[n]));
    choices[n].shrink_to_fit();
  }
  share_layouts(choices);
  replicate_free_nodes(graph, fused, choices);
  return choices;
}

ValuePrice TransitionCostCache::price_of(const Graph& graph, ValueId value) {
  TransitionTable& transitions = table(graph.type(value), graph.mesh(value));
  const FusedValue fused = fused_value(fused_, value);
  return ValuePrice(transitions, fills_per_launch(graph, value), fused, costs_, stored_[{&transitions, fused}]);
}

TransitionTable& TransitionCostCache::table(const TensorType& type, const Mesh& mesh) {
  return tables_.try_emplace(cat(print(type), print(mesh)), type, mesh, costs_).first->second;
}

sbp::AxisLowerBounds& TransitionCostCache::floors(const TensorType& type, const Mesh& mesh) {
  return floors_.try_emplace(cat(print(type), print(mesh)), type, mesh, costs_).first->second;
}

}  // namespace karez::passes
