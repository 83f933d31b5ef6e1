// Builds the calls of the unsplit program, and fuses them.
#include "karez/passes/lowering/fuse/fused_values.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "karez/base/attr_cast.h"
#include "karez/base/text.h"
#include "karez/passes/lowering/call.h"
#include "karez/passes/lowering/fuse/rules.h"

namespace karez::passes {
namespace {

constexpr const char* other_kernel = "other";  // of calls that no rule merges

bool is_product(const CallSpec& call) { return call.op == "matmul" || call.op == "conv2d"; }

// Knows which products accept a bias or round their results, without asking the kernels: to look up a product of a new
// size takes long. Every other call is looked up.
class ProductCatalog : public KernelCatalog {
 public:
  explicit ProductCatalog(const KernelCatalog& catalog) : catalog_(catalog) {}
  std::optional<KernelChoice> find(const CallSpec& call) const override {
    if (!is_product(call)) return catalog_.find(call);
    const bool rounds = is_half(call.out[0].dtype) && !is_half(call.in[0].dtype);
    const bool has_half_bias = call.in.size() > 2 && is_half(call.in[2].dtype);
    if (rounds || has_half_bias) return std::nullopt;
    return KernelChoice{"product"};
  }
  std::optional<CallSpec> suggest(const CallSpec& call) const override { return catalog_.suggest(call); }
  std::string list(std::string_view op) const override { return catalog_.list(op); }

 private:
  const KernelCatalog& catalog_;
};

Box whole_box(const Shape& shape) {
  Box box;
  for (std::int64_t size : shape) box.push_back({0, size});
  return box;
}

// The calls of the program on one device. As in the pass `segment`, nodes share an actor if they are on one mesh, act
// equally often, and no transfer separates them.
class UnsplitProgram {
 public:
  UnsplitProgram(const Graph& graph, const KernelCatalog& catalog)
      : graph_(graph),
        catalog_(catalog),
        local_(graph.values.size()),
        is_sent_(graph.values.size(), false) {
    find_sent_values();
    for (NodeId n : graph.nodes.ids()) add(n);
    for (const Output& output : graph.outputs) cross(local_[output.value]);
    for (const Variable& variable : graph.variables)
      if (variable.updated.valid()) cross(local_[variable.updated]);
  }

  FusedValues fused() {
    std::vector<bool> stored(values_.size(), false);  // by root
    for (auto& [key, calls] : actors_) {
      SegmentCalls segment(graph_, values_, catalog_, 1, calls, crosses_);
      for (const FuseRule& rule : fuse_rules()) {
        if (!rule.removes_values) continue;
        const bool removes_accesses = rule.removes_accesses;
        std::vector<bool> before;
        if (!removes_accesses) before = accessed(calls);
        rule.apply(segment);
        if (removes_accesses) continue;
        const std::vector<bool> after = accessed(calls);
        for (std::size_t i = 0; i < before.size(); ++i) stored[i] = stored[i] || (before[i] && !after[i]);
      }
    }
    for (auto& [key, calls] : actors_) {
      const std::vector<bool> remaining = accessed(calls);
      for (std::size_t i = 0; i < stored.size(); ++i) stored[i] = stored[i] || remaining[i];
    }
    FusedValues fused(graph_.values.size());
    const auto uses = uses_of(graph_);
    for (ValueId v : graph_.values.ids()) {
      const LocalId root = values_[local_[v]].root;
      const NodeId producer = graph_.value(v).producer;
      if (!is_result_[root] || crosses_[root] || stored[static_cast<std::size_t>(root.index)]) continue;
      const Node& node = graph_.node(producer);
      if (node.op->role != Role::window) {
        fused[v].called = true;
        fused[v].written = node.op->name != "matmul" && node.op->name != "conv2d";
      }
      for (const Use& use : uses[v]) fused[v].reads += graph_.node(use.node).op->role != Role::window;
    }
    return fused;
  }

 private:
  // On several devices, these values are probably sent: sums over the first dimension, which is that of the batch,
  // results of the program, and gradients that are products. Other gradients are sent, too, but they are small and are
  // often computed after the calls around them.
  void find_sent_values() {
    ById<ValueId, bool> is_output(graph_.values.size(), false);
    for (const Output& output : graph_.outputs) is_output[output.value] = true;
    for (const Node& node : graph_.nodes) {
      const bool is_reduction = node.op->work == WorkClass::reduce && node.attrs.has("axes") &&
                                !node.attrs.ints("axes").empty() && node.attrs.ints("axes")[0] == 0;
      for (ValueId out : node.outputs) is_sent_[out] = (is_reduction || is_output[out]) && graph_.mesh(out).size() > 1;
    }
    for (const Node& node : graph_.nodes)
      for (ValueId in : node.inputs) {
        if (node.op->role == Role::transfer) is_sent_[in] = true;
        if (node.op->role == Role::update && graph_.mesh(in).size() > 1)
          is_sent_[in] = graph_.node(graph_.value(in).producer).op->half_policy == HalfPolicy::multiply;
      }
  }

  std::vector<bool> accessed(const std::vector<LocalCall>& calls) const {
    std::vector<bool> out(values_.size(), false);
    for (const LocalCall& call : calls) {
      if (SegmentCalls::is_removed(call)) continue;
      for (const auto* list : {&call.in, &call.out})
        for (LocalId value : *list) out[static_cast<std::size_t>(values_[value].root.index)] = true;
    }
    return out;
  }

  LocalId add_value(ValueId value, View view) {
    const LocalId id = values_.add({value, 0, {}, std::move(view), {}, 0, {}, -1, false});
    values_[id].root = id;
    crosses_.push_back(false);
    is_result_.push_back(false);
    actor_of_.emplace_back();
    return id;
  }
  LocalId add_window(ValueId value, LocalId source, View view, std::int64_t offset) {
    const LocalId id = add_value(value, std::move(view));
    values_[id].root = values_[source].root;
    values_[id].offset = values_[source].offset + offset;
    return id;
  }
  void cross(LocalId value) { crosses_[values_[value].root] = true; }

  // Equal numbers are one value, as in `localise`, so that a merged call has as few operands.
  LocalId splat(ValueId value, const Attr& number) {
    const TensorType& type = graph_.type(value);
    auto [at, inserted] = splats_.try_emplace(std::pair(type.dtype, Attrs().set("value", number).print()));
    if (inserted) {
      at->second = add_value({}, View(type.dtype, {}));
      values_[at->second].constant = true;
    }
    return add_window(value, at->second, View(type.dtype, type.shape, Strides(type.shape.size(), 0)), 0);
  }

  Attrs attrs_of(NodeId id) const {
    const Node& node = graph_.node(id);
    LocalView view{{&graph_, id}, {}, {}};
    for (ValueId in : node.inputs) view.in.push_back(whole_box(graph_.type(in).shape));
    for (ValueId out : node.outputs) view.out.push_back(whole_box(graph_.type(out).shape));
    return graph::localise(view);
  }

  // True if another actor than that of the node computes the value.
  using Actor = std::tuple<int, int, int>;  // mesh, acts, and a number
  void read(LocalId value, const Actor& actor) {
    const LocalId root = values_[value].root;
    if (is_result_[root] && actor_of_[root] != actor) crosses_[root] = true;
  }

  bool add_window_node(NodeId id, const Actor& actor) {
    const Node& node = graph_.node(id);
    if (node.op->role != Role::window) return false;
    const ValueId out = node.outputs[0];
    const Attrs attrs = attrs_of(id);
    LocalId source = local_[node.inputs[0]];
    read(source, actor);
    auto view = node.op->window(values_[source].view, graph_.type(out).shape, attrs);
    if (!view) {
      const LocalId copy = add_value({}, View(values_[source].view.type()));
      LocalCall call;
      call.spec.op = "copy", call.kernel = other_kernel;
      call.in = {source}, call.spec.in = {values_[source].view};
      call.out = {copy}, call.spec.out = {values_[copy].view};
      call.node = id;
      add_call(std::move(call), actor);
      source = copy;
      view = node.op->window(values_[source].view, graph_.type(out).shape, attrs);
    }
    local_[out] =
        view ? add_window(out, source, std::move(view->view), view->offset) : add_value(out, View(graph_.type(out)));
    return true;
  }

  // Results of convolutions and pools, and of elementwise ops on them, are stored with the channels last.
  bool is_channels_last(const Node& node) const {
    const std::string& name = node.op->name;
    if (starts_with(name, "conv2d") || starts_with(name, "max_pool") || starts_with(name, "avg_pool")) return true;
    return node.op->elementwise && std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId in) {
             const View& view = values_[local_[in]].view;
             return view.shape.size() == 4 && view.strides == channels_last(view.shape) && !view.contiguous();
           });
  }

  void add_call(LocalCall call, const Actor& actor) {
    for (LocalId in : call.in) read(in, actor);
    for (LocalId out : call.out) is_result_[values_[out].root] = true, actor_of_[values_[out].root] = actor;
    actors_[actor].push_back(std::move(call));
  }

  void add(NodeId id) {
    const Node& node = graph_.node(id);
    const Role role = node.op->role;
    OpenActor& open = open_[{mesh_of(graph_, id), node.acts}];
    const bool reads_transfer = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId in) {
      const NodeId producer = graph_.value(in).producer;
      return graph_.node(producer).op->role == Role::transfer && open.awaited.insert(in).second;
    });
    const bool has_call = role != Role::source && role != Role::state && role != Role::constant && !node.setup;
    if (has_call && (open.closing || reads_transfer)) ++open.number, open.closing = false;
    const Actor actor{mesh_of(graph_, id), node.acts, open.number};
    if (has_call && role != Role::update)
      for (ValueId out : node.outputs) open.closing = open.closing || is_sent_[out];
    if (role == Role::constant && node.attrs.has("value")) {
      local_[node.outputs[0]] = splat(node.outputs[0], attr_at(node.attrs, "value"));
      return;
    }
    if (add_window_node(id, actor)) return;
    for (ValueId out : node.outputs) local_[out] = add_value(out, View(graph_.type(out)));
    if (is_channels_last(node))
      for (ValueId out : node.outputs) {
        const TensorType& type = graph_.type(out);
        if (type.shape.size() == 4) values_[local_[out]].view = View(type.dtype, type.shape, channels_last(type.shape));
      }
    if (role == Role::state) values_[local_[node.outputs[0]]].variable = 0;
    if (!has_call) return;
    if (role == Role::transfer) return cross(local_[node.inputs[0]]);
    LocalCall call;
    call.node = id;
    for (ValueId in : node.inputs) call.in.push_back(local_[in]);
    for (ValueId out : node.outputs) call.out.push_back(local_[out]);
    std::vector<View> in, out;
    for (LocalId value : call.in) in.push_back(values_[value].view);
    for (LocalId value : call.out) out.push_back(values_[value].view);
    call.kernel = other_kernel;
    if (role == Role::compute && node.act_attrs.empty()) {
      call.spec = call_of({&graph_, id}, std::move(in), std::move(out), node.op->expr.empty() ? attrs_of(id) : Attrs());
      if (may_fuse(call.spec))
        if (const auto choice = catalog_.find(call.spec)) call.kernel = choice->kernel;
    } else {
      call.spec.op = node.op->name, call.spec.in = std::move(in), call.spec.out = std::move(out);
    }
    add_call(std::move(call), actor);
  }

  // The calls that the rules ask for.
  static bool may_fuse(const CallSpec& call) {
    static const std::set<std::string_view> ops = {"pointwise",  "cast",       "one_hot", "reduce_sum",
                                                   "reduce_max", "reduce_min", "matmul",  "conv2d"};
    return ops.count(call.op) > 0;
  }

  const Graph& graph_;
  const ProductCatalog catalog_;
  ById<ValueId, LocalId> local_;
  ById<ValueId, bool> is_sent_;  // to other devices, probably
  struct OpenActor {
    int number = 0;
    bool closing = false;       // its last call computed a value that is sent
    std::set<ValueId> awaited;  // results of transfers
  };
  std::map<std::pair<int, int>, OpenActor> open_;  // by mesh and acts
  ById<LocalId, LocalValue> values_;
  ById<LocalId, bool> crosses_, is_result_;  // by root
  ById<LocalId, Actor> actor_of_;            // by root
  std::map<Actor, std::vector<LocalCall>> actors_;
  std::map<std::pair<DType, std::string>, LocalId> splats_;
};

}  // namespace

FusedValue fused_value(const FusedValues& values, ValueId value) {
  return values.has(value) ? values[value] : FusedValue();
}

FusedValues fused_values(const Graph& graph, const KernelCatalog& catalog, const CompileOptions& options) {
  if (std::find(options.off.begin(), options.off.end(), "fuse") != options.off.end()) return {};
  return UnsplitProgram(graph, catalog).fused();
}

}  // namespace karez::passes
