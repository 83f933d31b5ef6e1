// box: adds transition trees as nodes where a value's producer and consumers have different layouts.
#include "karez/passes/sharding/box.h"

#include <algorithm>
#include <map>

#include "karez/passes/rewrite.h"
#include "karez/sbp/transition.h"

namespace karez::passes {
namespace {

// Adds the steps of a transition tree after `value` (new id) and returns the new value in each layout of the tree.
std::map<Layout, ValueId> grow_tree(Rewrite& rewrite, const OpDef* box, ValueId value,
                                    const std::vector<Layout>& targets, const CostTable& costs, NodeId source) {
  Graph& graph = rewrite.graph();
  const TensorType type = graph.type(value);
  const int mesh = graph.value(value).mesh;
  const Layout start = *graph.value(value).layout;
  const int acts = fills_per_launch(graph, value);
  std::map<Layout, ValueId> reached = {{start, value}};
  for (const TransitionStep& step :
       transition_tree(type, graph.meshes[static_cast<std::size_t>(mesh)], start, targets, costs).steps) {
    auto axis = static_cast<std::size_t>(step.axis);
    Attrs attrs;
    attrs.set("axis", step.axis).set("move", std::string(name_of(step.move)));
    attrs.set("from", print(step.from[axis])).set("to", print(step.to[axis]));
    NodeId node = rewrite.add(box, {reached.at(step.from)}, std::move(attrs), std::span(&type, 1), mesh, source);
    graph.node(node).acts = acts;
    ValueId out = graph.node(node).outputs[0];
    graph.value(out).layout = step.to;
    reached[step.to] = out;
  }
  return reached;
}

}  // namespace

Graph box(const Graph& graph, const OpTable& ops, const OperandLayouts& operand_layouts, const CostTable& costs) {
  const OpDef* box = &ops.at("box");
  auto uses = uses_of(graph);
  ById<ValueId, std::vector<Layout>> targets(graph.values.size());
  auto add_target = [&](ValueId value, const Layout& layout) {
    auto& list = targets[value];
    if (std::find(list.begin(), list.end(), layout) == list.end()) list.push_back(layout);
  };
  for (ValueId v : graph.values.ids())
    for (const Use& use : uses[v]) add_target(v, operand_layouts[use.node][static_cast<std::size_t>(use.operand)]);
  for (const Output& output : graph.outputs) add_target(output.value, layout_of(graph, output));
  for (const Variable& variable : graph.variables)
    if (variable.updated.valid()) add_target(variable.updated, *variable.stored);

  Rewrite rewrite(graph);
  ById<ValueId, std::map<Layout, ValueId>> values_by_layout(graph.values.size());
  for (NodeId n : graph.nodes.ids()) {
    NodeId old(n);
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < graph.nodes[n].inputs.size(); ++i)
      inputs.push_back(values_by_layout[graph.nodes[n].inputs[i]].at(operand_layouts[n][i]));
    rewrite.keep(old, std::move(inputs));
    for (ValueId out : graph.nodes[n].outputs) {
      auto& list = targets[out];
      std::sort(list.begin(), list.end());
      values_by_layout[out] = grow_tree(rewrite, box, rewrite.at(out), list, costs, old);
    }
  }
  // One value may be both an output and the next version of several variables, each in a different layout. Therefore
  // the output and each variable get their values separately.
  Graph boxed = rewrite.finish();
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const Output& output = graph.outputs[i];
    boxed.outputs[i].value = values_by_layout[output.value].at(layout_of(graph, output));
  }
  for (std::size_t i = 0; i < graph.variables.size(); ++i) {
    const Variable& variable = graph.variables[i];
    if (variable.read.valid()) boxed.variables[i].read = values_by_layout[variable.read].at(*variable.stored);
    if (variable.updated.valid()) boxed.variables[i].updated = values_by_layout[variable.updated].at(*variable.stored);
  }
  return boxed;
}

}  // namespace karez::passes
