// Follows constants forward through pure calls and windows, and propagates the layouts of readers backward.
#include "karez/passes/sharding/setup_nodes.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "karez/passes/lowering/call.h"
#include "karez/passes/lowering/hoist.h"
#include "karez/passes/sharding/shard_tables.h"

namespace karez::passes {
namespace {

bool has_partial(const Layout& layout) {
  return std::any_of(layout.begin(), layout.end(), [](Sbp entry) { return entry.is_partial(); });
}
bool is_whole(const Layout& layout) {
  return std::all_of(layout.begin(), layout.end(), [](Sbp entry) { return entry.is_broadcast(); });
}

struct NodeLayouts {
  std::vector<Layout> ins, outs;
};

NodeLayouts layouts_of(const Node& node, const std::vector<Sharding>& axes) {
  NodeLayouts layouts{std::vector<Layout>(node.inputs.size()), std::vector<Layout>(node.outputs.size())};
  for (const Sharding& axis : axes) {
    for (std::size_t i = 0; i < layouts.ins.size(); ++i) layouts.ins[i].push_back(axis.in[i]);
    for (std::size_t o = 0; o < layouts.outs.size(); ++o) layouts.outs[o].push_back(axis.out[o]);
  }
  return layouts;
}

class SetupNodes {
 public:
  SetupNodes(Graph graph, const KernelCatalog& catalog)
      : graph_(std::move(graph)),
        catalog_(catalog),
        setup_values_(graph_.values.size()) {}

  Graph run() {
    for (NodeId n : graph_.nodes.ids()) {
      const Node& node = graph_.node(n);
      if (node.op->role == Role::constant) add_constant(node);
      else if (std::all_of(node.inputs.begin(), node.inputs.end(),
                           [&](ValueId in) { return setup_values_[in].has_value(); }) &&
               !node.inputs.empty())
        node.op->role == Role::window ? add_window(n) : add_call(n);
    }
    return std::move(graph_);
  }

 private:
  // A value that the setup computes in full on each device.
  struct SetupValue {
    View view;
    std::int64_t root_bytes = 0;  // bytes of the value that the view shows
    bool computed = false;        // true if a call computes the value, so that marking its readers saves time
  };

  bool may_be_whole(ValueId value) const {
    return !graph_.value(value).layout || is_whole(*graph_.value(value).layout);
  }

  void add_constant(const Node& node) {
    const ValueId out = node.outputs[0];
    if (!may_be_whole(out)) return;
    const TensorType& type = graph_.type(out);
    const bool splat = node.attrs.has("value");
    setup_values_[out] = SetupValue{splat ? View(type.dtype, type.shape, Strides(type.shape.size(), 0)) : View(type),
                                    splat ? static_cast<std::int64_t>(size_of(type.dtype)) : type.bytes(), false};
  }

  void add_window(NodeId id) {
    const Node& node = graph_.node(id);
    const SetupValue& from = *setup_values_[node.inputs[0]];
    const ValueId out = node.outputs[0];
    if (!may_be_whole(out)) return;
    const NodeLayouts layouts = broadcast_layouts(node);
    SetupValue result{{}, from.root_bytes, from.computed};
    auto window_view = node.op->window(from.view, graph_.type(out).shape, local_attrs(id, layouts));
    if (!window_view) {  // the window needs a copy, which the setup makes only if it is not larger than the value
      const View copy(from.view.type());
      if (copy.bytes() > from.root_bytes) return;
      result.root_bytes = copy.bytes();
      window_view = node.op->window(copy, graph_.type(out).shape, local_attrs(id, layouts));
      if (!window_view) return;
    }
    result.view = std::move(window_view->view);
    if (result.computed) mark(id, layouts);
    setup_values_[out] = std::move(result);
  }

  void add_call(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.op->role != Role::compute || !node.op->pure || !node.act_attrs.empty() || !node.regions.empty()) return;
    const auto layouts = layouts_of_call(id);
    if (!layouts) return;
    std::vector<View> in, out;
    std::int64_t read = 0, result = 0;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      View view = setup_values_[node.inputs[i]]->view;
      view.shape = shape_of(box_of(node.inputs[i], layouts->ins[i]));
      in.push_back(std::move(view));
      read += setup_values_[node.inputs[i]]->root_bytes;
    }
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      out.emplace_back(
          TensorType{graph_.type(node.outputs[o]).dtype, shape_of(box_of(node.outputs[o], layouts->outs[o]))});
      result += out.back().bytes();
    }
    CallSpec spec = call_of({&graph_, id}, std::move(in), std::move(out), local_attrs(id, *layouts));
    if (spec.op == "copy" && result > read) return;
    auto choice = catalog_.find(spec);
    if (!choice) {  // the call needs copies, which the setup makes only if they are not larger than the values
      for (std::size_t i = 0; i < spec.in.size(); ++i) {
        if (spec.in[i].bytes() > setup_values_[node.inputs[i]]->root_bytes) return;
        spec.in[i] = View(spec.in[i].type());
      }
      choice = catalog_.find(spec);
    }
    if (!choice || !works_in_setup(choice->workspace, result)) return;
    mark(id, *layouts);
    for (std::size_t o = 0; o < node.outputs.size(); ++o)
      if (is_whole(layouts->outs[o]))
        setup_values_[node.outputs[o]] = SetupValue{spec.out[o], spec.out[o].bytes(), true};
  }

  NodeLayouts broadcast_layouts(const Node& node) const {
    const Layout layout = broadcast_layout(graph_.mesh(node.outputs[0]));
    return {std::vector<Layout>(node.inputs.size(), layout), std::vector<Layout>(node.outputs.size(), layout)};
  }
  // Returns Broadcast layouts if the fixed layouts of the results allow it, otherwise layouts in which the results have
  // their fixed layouts; nullopt if no sharding has them.
  std::optional<NodeLayouts> layouts_of_call(NodeId id) const {
    const Node& node = graph_.node(id);
    if (std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId out) { return may_be_whole(out); }))
      return broadcast_layouts(node);
    for (const auto& axes : mesh_shardings({&graph_, id}, graph_.mesh(node.outputs[0]))) {
      NodeLayouts layouts = layouts_of(node, axes);
      bool matches = true;
      for (std::size_t o = 0; o < layouts.outs.size(); ++o)
        matches = matches && graph_.value(node.outputs[o]).layout.value_or(layouts.outs[o]) == layouts.outs[o];
      if (matches) return layouts;
    }
    return {};
  }

  Box box_of(ValueId value, const Layout& layout) const {
    return local_box(graph_.type(value).shape, graph_.mesh(value), layout, 0);
  }
  Attrs local_attrs(NodeId id, const NodeLayouts& layouts) const {
    const Node& node = graph_.node(id);
    LocalView local{{&graph_, id}, {}, {}};
    for (std::size_t i = 0; i < layouts.ins.size(); ++i) local.in.push_back(box_of(node.inputs[i], layouts.ins[i]));
    for (std::size_t o = 0; o < layouts.outs.size(); ++o) local.out.push_back(box_of(node.outputs[o], layouts.outs[o]));
    return graph::localise(local);
  }

  void mark(NodeId id, const NodeLayouts& layouts) {
    Node& node = graph_.node(id);
    node.setup = true;
    for (std::size_t o = 0; o < layouts.outs.size(); ++o) graph_.value(node.outputs[o]).layout = layouts.outs[o];
  }

  Graph graph_;
  const KernelCatalog& catalog_;
  ById<ValueId, std::optional<SetupValue>> setup_values_;
};

}  // namespace

Graph with_setup_nodes(Graph graph, const KernelCatalog& catalog) {
  return SetupNodes(std::move(graph), catalog).run();
}

void split_setup_nodes(ShardedGraph& sharded, const Graph& unmarked) {
  Graph& graph = sharded.graph;
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) { return node.setup; })) return;
  const auto consumers = consumer_layouts(graph);
  // True for a constant that only the setup reads.
  auto is_read_only_in_setup = [&](const Node& node, const ConsumerLayouts& consumers_of_value) {
    return node.op->role == Role::constant && !consumers_of_value.uses.empty() &&
           std::all_of(consumers_of_value.uses.begin(), consumers_of_value.uses.end(),
                       [&](const Use& use) { return graph.node(use.node).setup; });
  };
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const NodeId n(i);
    const Node& node = graph.node(n);
    if (node.outputs.size() != 1) continue;
    const ValueId out = node.outputs[0];
    const ConsumerLayouts& consumers_of_value = consumers[out];
    if (!(node.setup || is_read_only_in_setup(node, consumers_of_value)) || unmarked.value(out).layout ||
        !is_whole(*graph.value(out).layout))
      continue;
    std::set<Layout> required_layouts(consumers_of_value.outputs.begin(), consumers_of_value.outputs.end());
    required_layouts.insert(consumers_of_value.stored.begin(), consumers_of_value.stored.end());
    for (NodeId variable_node : consumers_of_value.stored_as_outputs_of)
      required_layouts.insert(*graph.value(graph.node(variable_node).outputs[0]).layout);
    for (const Use& use : consumers_of_value.uses)
      required_layouts.insert(sharded.operand_layouts[use.node][static_cast<std::size_t>(use.operand)]);
    if (required_layouts.size() != 1 || has_partial(*required_layouts.begin())) continue;
    for (const auto& axes : mesh_shardings({&graph, n}, graph.mesh(out))) {
      NodeLayouts layouts = layouts_of(node, axes);
      bool matches = layouts.outs[0] == *required_layouts.begin();
      for (std::size_t k = 0; k < layouts.ins.size(); ++k)
        matches = matches && is_whole(*graph.value(node.inputs[k]).layout) && !has_partial(layouts.ins[k]);
      if (!matches) continue;
      graph.value(out).layout = layouts.outs[0];
      sharded.operand_layouts[n] = std::move(layouts.ins);
      break;
    }
  }
}

}  // namespace karez::passes
