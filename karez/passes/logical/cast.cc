// cast: decides which ops compute in bf16 or f16 and which values are only stored in them, and inserts the casts.
#include "karez/passes/logical/cast.h"

#include <algorithm>
#include <utility>

#include "karez/passes/rewrite.h"

namespace karez::passes {
namespace {

// Windows, transfers and similar nodes only move elements, so they keep the type whatever their op's policy is.
HalfPolicy half_policy_of(const OpDef& op) {
  switch (op.role) {
    case Role::source:
    case Role::state:
    case Role::constant:
    case Role::window:
    case Role::transition:
    case Role::transfer:
    case Role::micro_join:
    case Role::micro_slice: return HalfPolicy::keep;
    default: return op.half_policy;
  }
}

// True if a kernel multiplies this type about as fast as f32 or faster (a rate of at least 0.5).
bool has_fast_matmul(const KernelCatalog& catalog, DType dtype) {
  CallSpec call;
  call.op = "matmul";
  call.in = {View(dtype, {64, 64}), View(dtype, {64, 64})};
  call.out = {View(DType::f32, {64, 64})};
  const auto kernel = catalog.find(call);
  return kernel && kernel->rate >= 0.5;
}

// Copies the nodes of a graph into a new one, with casts between them.
class CastRewriter {
 public:
  CastRewriter(const Graph& graph, const OpTable& ops) : graph_(graph), op_(&ops.at("cast")), rewrite_(graph) {}

 protected:
  ValueId cast(ValueId value, DType to, NodeId like) {
    const Value& from = rewrite_.graph().value(value);
    if (from.type.dtype == to) return value;
    const TensorType type{to, from.type.shape};
    const NodeId made =
        rewrite_.add(op_, {value}, Attrs{{"to", std::string(name_of(to))}}, std::span(&type, 1), from.mesh, like);
    return rewrite_.graph().node(made).outputs[0];
  }
  // Copies the node with these operands and the result types that follow from them.
  std::vector<ValueId> rebuild(NodeId id, std::vector<ValueId> inputs, Attrs attrs) {
    const Node& node = graph_.node(id);
    std::vector<TensorType> types;
    for (ValueId in : inputs) types.push_back(rewrite_.graph().type(in));
    types = node.op->infer(types, attrs);
    const NodeId made =
        rewrite_.add(node.op, std::move(inputs), std::move(attrs), types, graph_.value(node.outputs[0]).mesh, id);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      Value& value = rewrite_.graph().value(rewrite_.graph().node(made).outputs[i]);
      value.mesh = graph_.value(node.outputs[i]).mesh;
      value.layout = graph_.value(node.outputs[i]).layout;
    }
    return rewrite_.graph().node(made).outputs;
  }

  const Graph& graph_;
  const OpDef* op_;
  Rewrite rewrite_;
};

// Converts an f32 program to mixed precision.
class MixedPrecision : public CastRewriter {
 public:
  MixedPrecision(const Graph& graph, const OpTable& ops, DType low, bool multiplied)
      : CastRewriter(graph, ops),
        low_(low),
        multiplied_(multiplied),
        is_low_(graph.values.size()),
        is_weak_(graph.values.size()),
        stored_low_(graph.values.size()),
        made_(graph.values.size()) {}

  Graph run() {
    for (NodeId n : graph_.nodes.ids()) decide(n);
    choose_stored();
    for (NodeId n : graph_.nodes.ids()) write(n);
    for (const Output& output : graph_.outputs)
      rewrite_.map(output.value, wide(output.value, graph_.value(output.value).producer));
    for (const Variable& variable : graph_.variables) {
      if (variable.updated.valid())
        rewrite_.map(variable.updated, wide(variable.updated, graph_.value(variable.updated).producer));
    }
    return rewrite_.finish();
  }

 private:
  struct CastVersions {
    ValueId wide, low, back;  // as computed, rounded, and the rounded one as f32 again
  };

  bool is_f32(ValueId value) const { return graph_.type(value).dtype == DType::f32; }
  bool has_other_floats(const Node& node) const {
    const auto other = [&](ValueId v) { return is_float(graph_.type(v).dtype) && !is_f32(v); };
    return std::any_of(node.inputs.begin(), node.inputs.end(), other) ||
           std::any_of(node.outputs.begin(), node.outputs.end(), other);
  }

  // Decides which results have the low type. Constants and variables, also through windows, follow the other operands.
  void decide(NodeId id) {
    const Node& node = graph_.node(id);
    const HalfPolicy half_policy = half_policy_of(*node.op);
    require(ErrorKind::type, half_policy != HalfPolicy::multiply || graph_.type(node.inputs[0]).dtype != DType::f64,
            "amp: ", describe(graph_, id),
            " multiplies f64, but mixed precision requires f32; cast its operands to f32, or omit amp");
    const bool fixed = node.op->role == Role::constant || node.op->role == Role::state;
    is_weak_[node.outputs[0]] = fixed || (node.op->role == Role::window && is_weak_[node.inputs[0]]);
    if (has_other_floats(node) || half_policy == HalfPolicy::widen) return;
    bool any = false, all = true;
    for (ValueId in : node.inputs) {
      if (!is_f32(in)) continue;
      any |= is_low_[in];
      all &= is_low_[in] || is_weak_[in];
    }
    const bool low = half_policy == HalfPolicy::multiply ? is_f32(node.inputs[0]) : any && all;
    for (ValueId out : node.outputs) is_low_[out] = low && is_f32(out);
  }

  // A low value is stored rounded if a consumer reads it rounded. A single consumer that computes in f32 reads it
  // unrounded.
  void choose_stored() {
    const auto uses = uses_of(graph_);
    ById<ValueId, bool> kept_alive(graph_.values.size());
    for (const Output& output : graph_.outputs) kept_alive[output.value] = true;
    for (ValueId v : graph_.values.ids()) {
      if (!is_low_[v]) continue;
      for (const Use& use : uses[v]) {
        const Node& reader = graph_.node(use.node);
        const HalfPolicy half_policy = half_policy_of(*reader.op);
        const bool low = !reader.outputs.empty() && is_low_[reader.outputs[0]];
        const bool alone = uses[v].size() == 1 && !kept_alive[v];
        stored_low_[v] = stored_low_[v] || half_policy == HalfPolicy::multiply ||
                         (low && (half_policy == HalfPolicy::keep || !alone));
      }
    }
  }

  ValueId low(ValueId v, NodeId like) {
    CastVersions& made = made_[v];
    if (!made.low.valid()) made.low = cast(made.wide, low_, like);
    return made.low;
  }
  ValueId back(ValueId v, NodeId like) {
    const ValueId rounded = low(v, like);
    CastVersions& made = made_[v];
    if (!made.back.valid()) made.back = cast(rounded, DType::f32, like);
    return made.back;
  }
  ValueId wide(ValueId v, NodeId like) {
    return is_low_[v] && (stored_low_[v] || !made_[v].wide.valid()) ? back(v, like) : made_[v].wide;
  }

  void write(NodeId id) {
    const Node& node = graph_.node(id);
    const HalfPolicy half_policy = half_policy_of(*node.op);
    const bool low_result = is_low_[node.outputs[0]];
    std::vector<ValueId> inputs;
    for (ValueId in : node.inputs) {
      if (!is_f32(in)) inputs.push_back(made_[in].wide);
      else if (low_result && half_policy == HalfPolicy::multiply)
        inputs.push_back(multiplied_ ? low(in, id) : back(in, id));
      else if (low_result && half_policy == HalfPolicy::keep) inputs.push_back(low(in, id));
      else inputs.push_back(wide(in, id));
    }
    Attrs attrs = node.attrs;
    if (!low_result || half_policy == HalfPolicy::widen_and_round) {
      rewrite_.keep(id, std::move(inputs));
      for (ValueId out : node.outputs) made_[out].wide = rewrite_.at(out);
      return;
    }
    if (half_policy == HalfPolicy::multiply && multiplied_) attrs.set("wide", true);
    const std::vector<ValueId> outputs = rebuild(id, std::move(inputs), std::move(attrs));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      CastVersions& made = made_[node.outputs[i]];
      (half_policy == HalfPolicy::keep && is_low_[node.outputs[i]] ? made.low : made.wide) = outputs[i];
      rewrite_.map(node.outputs[i], outputs[i]);
    }
  }

  DType low_;
  bool multiplied_;  // a kernel multiplies the low type; otherwise products run in f32
  ById<ValueId, bool> is_low_, is_weak_, stored_low_;
  ById<ValueId, CastVersions> made_;
};

// Computes ops on the program's own bf16 and f16 values in f32.
class HalfWidening : public CastRewriter {
 public:
  HalfWidening(const Graph& graph, const OpTable& ops, bool multiplied)
      : CastRewriter(graph, ops),
        multiplied_(multiplied),
        backs_(graph.values.size()) {}

  Graph run() {
    for (NodeId n : graph_.nodes.ids())
      if (!is_widened(graph_.node(n))) rewrite_.keep(n);
      else widen(n);
    return rewrite_.finish();
  }

 private:
  bool half(ValueId value) const { return is_half(graph_.type(value).dtype); }
  bool native(const Node& node) const {
    return multiplied_ && half_policy_of(*node.op) == HalfPolicy::multiply &&
           graph_.type(node.inputs[0]).dtype == DType::bf16;
  }
  bool is_widened(const Node& node) const {
    const auto of_half = [&](ValueId v) { return half(v); };
    if (std::none_of(node.inputs.begin(), node.inputs.end(), of_half) &&
        std::none_of(node.outputs.begin(), node.outputs.end(), of_half))
      return false;
    return half_policy_of(*node.op) != HalfPolicy::keep && !(native(node) && node.attrs.flag("wide", false));
  }

  void widen(NodeId id) {
    const Node& node = graph_.node(id);
    Attrs attrs = node.attrs;
    if (native(node)) attrs.set("wide", true);
    else attrs.erase("wide");
    if (attrs.has("dtype") && is_half(graph_.type(node.outputs[0]).dtype))
      attrs.set("dtype", std::string(name_of(DType::f32)));
    std::vector<ValueId> inputs;
    for (ValueId in : node.inputs) inputs.push_back(half(in) && !native(node) ? back(in, id) : rewrite_.at(in));
    const std::vector<ValueId> outputs = rebuild(id, std::move(inputs), std::move(attrs));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Value& old = graph_.value(node.outputs[i]);
      const ValueId result = cast(outputs[i], old.type.dtype, id);
      if (result != outputs[i])
        std::swap(rewrite_.graph().value(result).layout, rewrite_.graph().value(outputs[i]).layout);
      rewrite_.map(node.outputs[i], result);
    }
  }
  ValueId back(ValueId value, NodeId like) {
    if (!backs_[value].valid()) backs_[value] = cast(rewrite_.at(value), DType::f32, like);
    return backs_[value];
  }

  bool multiplied_;
  ById<ValueId, ValueId> backs_;
};

bool has_halves(const Graph& graph) {
  return std::any_of(graph.values.begin(), graph.values.end(),
                     [](const Value& value) { return is_half(value.type.dtype); });
}

}  // namespace

Graph cast_halves(Graph graph, const OpTable& ops, const KernelCatalog& catalog, std::optional<DType> low) {
  if (!low && !has_halves(graph)) return graph;
  const bool multiplied = has_fast_matmul(catalog, DType::bf16);
  if (low) graph = MixedPrecision(graph, ops, *low, multiplied && *low == DType::bf16).run();
  return has_halves(graph) ? HalfWidening(graph, ops, multiplied).run() : graph;
}

}  // namespace karez::passes
