// Reverse-mode differentiation: calls the grad function of each op, from the loss backward, and sums the contributions
// to each gradient.
#include "karez/ops/gradient.h"

#include <algorithm>
#include <map>
#include <utility>

#include "karez/ops/compose.h"

namespace karez::ops {
namespace {

// Returns the values that depend on `wrt` through float values. Only these have a gradient; a comparison or an index
// ends the path.
ById<ValueId, bool> reached_from(const Graph& graph, std::span<const ValueId> wrt, const ById<ValueId, bool>& stops,
                                 std::span<const GradientHook> hooks) {
  ById<ValueId, bool> reached(graph.values.size());
  for (ValueId v : wrt) reached[v] = true;
  const auto is_reached = [&](ValueId v) { return reached[v]; };
  std::map<NodeId, const GradientHook*> functions;  // by the nodes that copy their outputs
  for (const GradientHook& hook : hooks)
    for (ValueId v : hook.outputs)
      if (!hook.operands.empty()) functions[graph.value(v).producer] = &hook;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.node(NodeId(n));
    const auto function = functions.find(NodeId(n));
    const std::vector<ValueId>& inputs = function == functions.end() ? node.inputs : function->second->operands;
    const bool any = std::any_of(inputs.begin(), inputs.end(), is_reached);
    if (!any || node.op->name == "stop_gradient") continue;
    for (ValueId out : node.outputs)
      if (is_float(graph.type(out).dtype) && !stops[out]) reached[out] = true;
  }
  return reached;
}

// Removes the nodes from `first_node` on that no value of `keep` depends on. There are such nodes because the grad
// function of an op builds the gradients of all operands. The remaining nodes and values are renumbered, also in
// `keep`.
void drop_unused(Graph& graph, std::size_t first_node, std::size_t first_value, std::vector<ValueId>& keep) {
  ById<NodeId, bool> used(graph.nodes.size());
  auto use = [&](ValueId v) {
    if (v.valid() && static_cast<std::size_t>(v.index) >= first_value) used[graph.value(v).producer] = true;
  };
  for (ValueId v : keep) use(v);
  for (std::size_t n = graph.nodes.size(); n-- > first_node;)
    if (used[NodeId(n)])
      for (ValueId v : graph.node(NodeId(n)).inputs) use(v);

  ById<ValueId, ValueId> new_ids(graph.values.size());
  std::size_t nodes = first_node, values = first_value;
  auto rename = [&](ValueId& v) {
    if (v.valid() && static_cast<std::size_t>(v.index) >= first_value) v = new_ids[v];
  };
  for (std::size_t n = first_node; n < graph.nodes.size(); ++n) {
    if (!used[NodeId(n)]) continue;
    Node node = std::move(graph.node(NodeId(n)));
    for (ValueId& v : node.inputs) rename(v);
    for (ValueId& v : node.outputs) {  // a new id is at most the old id, so no value in use is overwritten
      Value value = graph.value(v);
      value.producer = NodeId(nodes);
      new_ids[v] = ValueId(values);
      v = ValueId(values);
      graph.value(ValueId(values++)) = std::move(value);
    }
    graph.node(NodeId(nodes++)) = std::move(node);
  }
  for (ValueId& v : keep) rename(v);
  graph.nodes.resize(nodes);
  graph.values.resize(values);
}

// Sets path, source line and mesh of the builder to those of a node; the destructor restores them.
class BuilderLocation {
 public:
  explicit BuilderLocation(Builder& b) : b_(&b), path_(b.path), where_(b.where), mesh_(b.mesh) {}
  ~BuilderLocation() { b_->path = path_, b_->where = where_, b_->mesh = mesh_; }
  void set(const Node& node, int mesh) {
    b_->path = node.path.empty() ? "grad" : cat(node.path, ".grad");
    b_->where = node.where;
    b_->mesh = mesh;
  }

 private:
  Builder* b_;
  std::string path_, where_;
  int mesh_;
};

// Returns the gradients of the operands in `reached`, and invalid ids for the others.
std::vector<ValueId> operand_gradients(Builder& b, NodeId id, std::span<const ValueId> dy,
                                       const ById<ValueId, bool>& reached) {
  Graph& graph = b.graph();
  NodeView view{&graph, id};
  const OpDef& op = *view.node().op;
  if (!static_cast<bool>(op.grad))
    fail(describe(graph, id), ": no gradient passes through ", op.name, ": ",
         op.no_grad.empty() ? "it has no grad function" : op.no_grad,
         "; apply stop_gradient to its operand to end the path");
  std::vector<ValueId> inputs = view.node().inputs;  // a copy, because adding nodes may move the node
  std::size_t first_node = graph.nodes.size(), first_value = graph.values.size();
  std::vector<ValueId> out = op.grad(b, view, dy);
  require(out.size() == inputs.size(), op.name, ": its grad function must return ", inputs.size(),
          " values, one per operand, got ", out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!reached[inputs[i]]) out[i] = {};
    if (out[i].valid())
      require(graph.type(out[i]) == graph.type(inputs[i]), op.name, ": the gradient of operand ", i, " is ",
              graph.type(out[i]), ", but the operand is ", graph.type(inputs[i]));
  }
  drop_unused(graph, first_node, first_value, out);
  return out;
}

// The copies of one list of a hook. Its function is called at the last of them, after all their readers.
struct HookedCopies {
  const std::vector<ValueId>* copies;
  const GradientHook::Replace* replace;
  std::vector<ValueId> operands;  // the values whose gradients the function returns
  bool is_function = false;       // whether the copies count as a function of the operands
};

// The lists of the hooks whose outputs depend on `wrt`, by the nodes of their copies. Adds the inputs of these hooks to
// `reached`, so that their gradients exist.
class HookedNodes {
 public:
  HookedNodes(const Graph& graph, std::span<const ValueId> wrt, std::span<const GradientHook> hooks,
              const ById<ValueId, bool>& stops, ById<ValueId, bool>& reached)
      : graph_(&graph),
        places_(hooks.empty() ? 0 : graph.nodes.size()) {
    std::vector<ValueId> sources(wrt.begin(), wrt.end());
    for (const GradientHook& hook : hooks) {
      if (std::none_of(hook.outputs.begin(), hook.outputs.end(), [&](ValueId v) { return reached[v]; })) continue;
      sources.insert(sources.end(), hook.inputs.begin(), hook.inputs.end());
      add(graph, {&hook.outputs, &hook.replace_outputs, hook.operands});
      add(graph, {&hook.inputs, &hook.replace_inputs, {}});
    }
    if (!lists_.empty()) reached = reached_from(graph, sources, stops, hooks);
  }
  bool contains(NodeId node) const { return !lists_.empty() && places_[node] != 0; }
  // The last node of `node` and all lists.
  NodeId last_node(NodeId node) const {
    for (const HookedCopies& list : lists_)
      for (ValueId copy : *list.copies) node = std::max(node, graph_->value(copy).producer);
    return node;
  }
  // The list whose last copy this node makes, or null.
  const HookedCopies* ending_at(NodeId node) const { return places_[node] > 0 ? &lists_[places_[node] - 1] : nullptr; }

 private:
  void add(const Graph& graph, HookedCopies list) {
    NodeId last;
    if (list.copies->empty()) return;
    list.is_function = !list.operands.empty();
    if (!list.is_function)
      for (ValueId copy : *list.copies) list.operands.push_back(graph.node(graph.value(copy).producer).inputs[0]);
    for (ValueId copy : *list.copies) {
      const NodeId node = graph.value(copy).producer;
      places_[node] = -1;
      if (!last.valid() || node.index > last.index) last = node;
    }
    lists_.push_back(std::move(list));
    places_[last] = static_cast<int>(lists_.size());
  }

  const Graph* graph_;
  std::vector<HookedCopies> lists_;
  ById<NodeId, int> places_;  // 0: no copy of a hook; -1: a copy; otherwise the last copy of the list of this number
};

}  // namespace

std::vector<ValueId> gradient(Builder& b, ValueId loss, std::span<const ValueId> wrt, const GradientOptions& options) {
  Graph& graph = b.graph();
  TensorType type = graph.type(loss);
  NodeId last = graph.value(loss).producer;
  std::string location_text = last.valid() ? cat(" (", describe(graph, last), ")") : "";
  require(ErrorKind::type, type.shape.empty() && is_float(type.dtype),
          "the loss of a gradient must be a float scalar, f32[] or f64[], got ", type, location_text);
  for (ValueId v : wrt) {
    NodeId from = graph.value(v).producer;
    if (!is_float(graph.type(v).dtype))
      fail(ErrorKind::type, "no gradient exists with respect to ", graph.type(v),
           from.valid() ? cat(" (", describe(graph, from), ")") : "");
  }

  BuilderLocation location(b);
  ById<ValueId, bool> is_stop(graph.values.size());
  for (ValueId v : options.stops) is_stop[v] = true;
  std::vector<ValueId> sources(wrt.begin(), wrt.end());
  ById<ValueId, std::vector<const ValueHook*>> value_hooks(options.value_hooks.empty() ? 0 : graph.values.size());
  for (const ValueHook& hook : options.value_hooks) {
    value_hooks[hook.value].push_back(&hook);
    if (hook.is_source) sources.push_back(hook.value);
  }
  ById<ValueId, bool> reached = reached_from(graph, sources, is_stop, options.hooks);
  const HookedNodes hooked(graph, sources, options.hooks, is_stop, reached);
  ById<ValueId, ValueId> gradients(graph.values.size());  // the sum of the contributions to the gradient of each value
  // The values whose gradients are zeros, because a derivative on the path is 0 everywhere, as that of relu's slope.
  ById<ValueId, bool> is_zero(graph.values.size());
  auto gradient_of = [&](ValueId v) -> ValueId& { return gradients[v]; };
  auto add_contribution = [&](ValueId v, ValueId contribution) {
    ValueId& sum = gradient_of(v);
    sum = sum.valid() ? build::add(b, sum, contribution) : contribution;
  };
  auto report_gradients = [&](NodeId node, std::vector<ValueId> needed) {
    if (!options.before_hook) return;
    needed.erase(std::remove(needed.begin(), needed.end(), ValueId()), needed.end());
    for (std::size_t v = 0; v < gradients.size(); ++v) {
      const ValueId id(v);
      const bool is_pending = graph.value(id).producer.index <= node.index;
      if (gradient_of(id).valid() && (is_pending || std::find(wrt.begin(), wrt.end(), id) != wrt.end()))
        needed.push_back(gradient_of(id));
    }
    options.before_hook(needed);
  };
  auto call_value_hooks = [&](ValueId v) {
    if (options.value_hooks.empty() || !reached[v] || !gradient_of(v).valid()) return;
    for (const ValueHook* hook : std::exchange(value_hooks[v], {})) {
      report_gradients(graph.value(v).producer, {});
      const ValueId replaced = hook->replace(gradient_of(v));
      require(graph.type(replaced) == graph.type(v), "the gradient that a hook returned is ", graph.type(replaced),
              ", but the value is ", graph.type(v));
      gradient_of(v) = replaced;
    }
  };
  auto call_hook = [&](const HookedCopies& list) {
    for (ValueId v : *list.copies) call_value_hooks(v);
    if (std::none_of(list.copies->begin(), list.copies->end(), [&](ValueId v) { return gradient_of(v).valid(); }))
      return;
    std::vector<ValueId> given;
    for (ValueId v : *list.copies)
      given.push_back(gradient_of(v).valid() || list.is_function ? gradient_of(v) : build::full_like(b, v, 0));
    report_gradients(graph.value(list.copies->back()).producer, given);
    const std::vector<ValueId> replaced = (*list.replace)(given);
    require(replaced.size() == list.operands.size(), "a gradient hook must return ", list.operands.size(),
            " gradients, got ", replaced.size());
    for (std::size_t i = 0; i < replaced.size(); ++i) {
      const ValueId operand = list.operands[i];
      if (!replaced[i].valid() || !reached[operand]) continue;
      require(graph.type(replaced[i]) == graph.type(operand), "gradient ", i, " that a gradient hook returned is ",
              graph.type(replaced[i]), ", but the value is ", graph.type(operand));
      add_contribution(operand, replaced[i]);
    }
  };
  if (reached[loss]) {
    if (last.valid()) location.set(graph.node(last), graph.value(loss).mesh);
    gradient_of(loss) = options.seed.valid() ? options.seed : build::constant(b, type, 1);
  }
  // The other copies of a list may come after the loss.
  for (int n = hooked.last_node(last).index; n >= 0; --n) {
    NodeId id{n};
    if (!options.value_hooks.empty()) {
      location.set(graph.node(id), graph.value(graph.node(id).outputs[0]).mesh);
      for (ValueId out : std::vector<ValueId>(graph.node(id).outputs)) call_value_hooks(out);
    }
    if (hooked.contains(id)) {
      location.set(graph.node(id), graph.value(graph.node(id).outputs[0]).mesh);
      if (const HookedCopies* list = hooked.ending_at(id)) call_hook(*list);
      continue;
    }
    std::vector<ValueId> inputs = graph.node(id).inputs, dy;
    for (ValueId out : graph.node(id).outputs) dy.push_back(is_stop[out] ? ValueId() : gradient_of(out));
    bool has_gradient = std::any_of(dy.begin(), dy.end(), [](ValueId v) { return v.valid(); });
    bool is_needed = std::any_of(inputs.begin(), inputs.end(), [&](ValueId v) { return reached[v]; });
    const std::vector<ValueId>& outputs = graph.node(id).outputs;
    const bool has_zeros = std::any_of(outputs.begin(), outputs.end(), [&](ValueId v) { return is_zero[v]; });
    if (graph.node(id).op->name != "stop_gradient" && (has_gradient || has_zeros))
      for (ValueId v : inputs) is_zero[v] = is_zero[v] || (reached[v] && is_float(graph.type(v).dtype));
    if (!has_gradient || !is_needed) continue;
    location.set(graph.node(id), graph.value(graph.node(id).outputs[0]).mesh);
    std::vector<ValueId> contributions = operand_gradients(b, id, dy, reached);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (contributions[i].valid()) add_contribution(inputs[i], contributions[i]);
    }
  }

  std::vector<ValueId> out;
  for (ValueId v : wrt) {
    if (!gradient_of(v).valid() && (options.zeros || is_zero[v])) {
      const Value& value = graph.value(v);
      if (value.producer.valid()) location.set(graph.node(value.producer), value.mesh);
      b.mesh = value.mesh;
      gradient_of(v) = build::full_like(b, v, 0);
    }
    out.push_back(gradient_of(v));
  }
  return out;
}

}  // namespace karez::ops
