// Follows constants forward through pure calls and windows, and their readers' layouts backward.
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
  NodeLayouts laid{std::vector<Layout>(node.inputs.size()), std::vector<Layout>(node.outputs.size())};
  for (const Sharding& axis : axes) {
    for (std::size_t i = 0; i < laid.ins.size(); ++i) laid.ins[i].push_back(axis.in[i]);
    for (std::size_t o = 0; o < laid.outs.size(); ++o) laid.outs[o].push_back(axis.out[o]);
  }
  return laid;
}

class SetupNodes {
 public:
  SetupNodes(Graph graph, const KernelCatalog& catalog)
      : graph_(std::move(graph)),
        catalog_(catalog),
        held_(graph_.values.size()) {}

  Graph run() {
    for (NodeId n : graph_.nodes.ids()) {
      const Node& node = graph_.node(n);
      if (node.op->role == Role::constant) constant(node);
      else if (std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId in) { return held_[in].has_value(); }) &&
               !node.inputs.empty())
        node.op->role == Role::window ? window(n) : call(n);
    }
    return std::move(graph_);
  }

 private:
  // A value that the set-up computes whole on each device.
  struct SetupValue {
    View view;
    std::int64_t root_bytes = 0;  // of the value that the view shows
    bool computed = false;        // by a call, so it is worth marking
  };

  bool may_be_whole(ValueId value) const {
    return !graph_.value(value).layout || is_whole(*graph_.value(value).layout);
  }

  void constant(const Node& node) {
    const ValueId out = node.outputs[0];
    if (!may_be_whole(out)) return;
    const TensorType& type = graph_.type(out);
    const bool splat = node.attrs.has("value");
    held_[out] = SetupValue{splat ? View(type.dtype, type.shape, Strides(type.shape.size(), 0)) : View(type),
                            splat ? static_cast<std::int64_t>(size_of(type.dtype)) : type.bytes(), false};
  }

  void window(NodeId id) {
    const Node& node = graph_.node(id);
    const SetupValue& from = *held_[node.inputs[0]];
    const ValueId out = node.outputs[0];
    if (!may_be_whole(out)) return;
    const NodeLayouts way = whole(node);
    SetupValue made{{}, from.root_bytes, from.computed};
    auto seen = node.op->window(from.view, graph_.type(out).shape, local_attrs(id, way));
    if (!seen) {  // of a copy, which the set-up makes only if it is no larger
      const View copy(from.view.type());
      if (copy.bytes() > from.root_bytes) return;
      made.root_bytes = copy.bytes();
      seen = node.op->window(copy, graph_.type(out).shape, local_attrs(id, way));
      if (!seen) return;
    }
    made.view = std::move(seen->view);
    if (made.computed) mark(id, way);
    held_[out] = std::move(made);
  }

  void call(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.op->role != Role::compute || !node.op->pure || !node.act_attrs.empty() || !node.regions.empty()) return;
    const auto way = laid(id);
    if (!way) return;
    std::vector<View> in, out;
    std::int64_t read = 0, made = 0;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      View view = held_[node.inputs[i]]->view;
      view.shape = shape_of(box_of(node.inputs[i], way->ins[i]));
      in.push_back(std::move(view));
      read += held_[node.inputs[i]]->root_bytes;
    }
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      out.emplace_back(TensorType{graph_.type(node.outputs[o]).dtype, shape_of(box_of(node.outputs[o], way->outs[o]))});
      made += out.back().bytes();
    }
    CallSpec spec = call_of({&graph_, id}, std::move(in), std::move(out), local_attrs(id, *way));
    if (spec.op == "copy" && made > read) return;
    auto choice = catalog_.find(spec);
    if (!choice) {  // it reads copies, which the set-up makes only if they are no larger
      for (std::size_t i = 0; i < spec.in.size(); ++i) {
        if (spec.in[i].bytes() > held_[node.inputs[i]]->root_bytes) return;
        spec.in[i] = View(spec.in[i].type());
      }
      choice = catalog_.find(spec);
    }
    if (!choice || !works_in_setup(choice->workspace, made)) return;
    mark(id, *way);
    for (std::size_t o = 0; o < node.outputs.size(); ++o)
      if (is_whole(way->outs[o])) held_[node.outputs[o]] = SetupValue{spec.out[o], spec.out[o].bytes(), true};
  }

  NodeLayouts whole(const Node& node) const {
    const Layout layout = broadcast_layout(graph_.mesh(node.outputs[0]));
    return {std::vector<Layout>(node.inputs.size(), layout), std::vector<Layout>(node.outputs.size(), layout)};
  }
  // Broadcast layouts, or those that give its results their fixed layouts; nullopt if no sharding does.
  std::optional<NodeLayouts> laid(NodeId id) const {
    const Node& node = graph_.node(id);
    if (std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId out) { return may_be_whole(out); }))
      return whole(node);
    for (const auto& axes : mesh_shardings({&graph_, id}, graph_.mesh(node.outputs[0]))) {
      NodeLayouts way = layouts_of(node, axes);
      bool fits = true;
      for (std::size_t o = 0; o < way.outs.size(); ++o)
        fits = fits && graph_.value(node.outputs[o]).layout.value_or(way.outs[o]) == way.outs[o];
      if (fits) return way;
    }
    return {};
  }

  Box box_of(ValueId value, const Layout& layout) const {
    return local_box(graph_.type(value).shape, graph_.mesh(value), layout, 0);
  }
  Attrs local_attrs(NodeId id, const NodeLayouts& way) const {
    const Node& node = graph_.node(id);
    LocalView local{{&graph_, id}, {}, {}};
    for (std::size_t i = 0; i < way.ins.size(); ++i) local.in.push_back(box_of(node.inputs[i], way.ins[i]));
    for (std::size_t o = 0; o < way.outs.size(); ++o) local.out.push_back(box_of(node.outputs[o], way.outs[o]));
    return graph::localise(local);
  }

  void mark(NodeId id, const NodeLayouts& way) {
    Node& node = graph_.node(id);
    node.setup = true;
    for (std::size_t o = 0; o < way.outs.size(); ++o) graph_.value(node.outputs[o]).layout = way.outs[o];
  }

  Graph graph_;
  const KernelCatalog& catalog_;
  ById<ValueId, std::optional<SetupValue>> held_;
};

}  // namespace

Graph with_setup_nodes(Graph graph, const KernelCatalog& catalog) {
  return SetupNodes(std::move(graph), catalog).run();
}

void split_setup_nodes(ShardedGraph& laid, const Graph& before) {
  Graph& graph = laid.graph;
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) { return node.setup; })) return;
  const auto consumers = consumer_layouts(graph);
  auto made_for_setup = [&](const Node& node, const ConsumerLayouts& w) {  // a constant that no launch reads
    return node.op->role == Role::constant && !w.uses.empty() &&
           std::all_of(w.uses.begin(), w.uses.end(), [&](const Use& use) { return graph.node(use.node).setup; });
  };
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const NodeId n(i);
    const Node& node = graph.node(n);
    if (node.outputs.size() != 1) continue;
    const ValueId out = node.outputs[0];
    const ConsumerLayouts& w = consumers[out];
    if (!(node.setup || made_for_setup(node, w)) || before.value(out).layout || !is_whole(*graph.value(out).layout))
      continue;
    std::set<Layout> taken(w.outputs.begin(), w.outputs.end());
    taken.insert(w.stored.begin(), w.stored.end());
    for (NodeId like : w.stored_as_outputs_of) taken.insert(*graph.value(graph.node(like).outputs[0]).layout);
    for (const Use& use : w.uses) taken.insert(laid.wanted[use.node][static_cast<std::size_t>(use.operand)]);
    if (taken.size() != 1 || has_partial(*taken.begin())) continue;
    for (const auto& axes : mesh_shardings({&graph, n}, graph.mesh(out))) {
      NodeLayouts way = layouts_of(node, axes);
      bool fits = way.outs[0] == *taken.begin();
      for (std::size_t k = 0; k < way.ins.size(); ++k)
        fits = fits && is_whole(*graph.value(node.inputs[k]).layout) && !has_partial(way.ins[k]);
      if (!fits) continue;
      graph.value(out).layout = way.outs[0];
      laid.wanted[n] = std::move(way.ins);
      break;
    }
  }
}

}  // namespace karez::passes
