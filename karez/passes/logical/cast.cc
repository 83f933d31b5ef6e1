// Decides which ops compute in bf16 or f16 and which values are only stored in these types, and inserts casts.
#include "karez/passes/logical/cast.h"

#include <algorithm>
#include <utility>

#include "karez/passes/rewrite.h"

namespace karez::passes {
namespace {

// Windows, transfers and similar nodes only move elements, so they keep the type regardless of the op's policy.
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

// True if some kernel multiplies matrices of this type with a rate of at least 0.5, that is, about as fast as f32 or
// faster.
bool has_fast_matmul(const KernelCatalog& catalog, DType dtype) {
  CallSpec call;
  call.op = "matmul";
  call.in = {View(dtype, {64, 64}), View(dtype, {64, 64})};
  call.out = {View(DType::f32, {64, 64})};
  const auto kernel = catalog.find(call);
  return kernel && kernel->rate >= 0.5;
}

// Copies the nodes of a graph into a new graph, with casts between the nodes.
class CastRewriter {
 public:
  CastRewriter(const Graph& graph, const OpTable& ops) : graph_(graph), cast_op_(&ops.at("cast")), rewrite_(graph) {}

 protected:
  ValueId cast(ValueId value, DType to, NodeId source) {
    const Value& from = rewrite_.graph().value(value);
    if (from.type.dtype == to) return value;
    const TensorType type{to, from.type.shape};
    const NodeId cast_node = rewrite_.add(cast_op_, {value}, Attrs{{"to", std::string(name_of(to))}},
                                          std::span(&type, 1), from.mesh, source);
    return rewrite_.graph().node(cast_node).outputs[0];
  }
  // Copies the node with the given operands, and infers the result types.
  std::vector<ValueId> rebuild(NodeId id, std::vector<ValueId> inputs, Attrs attrs) {
    const Node& node = graph_.node(id);
    std::vector<TensorType> types;
    for (ValueId in : inputs) types.push_back(rewrite_.graph().type(in));
    types = node.op->infer(types, attrs);
    const NodeId new_node =
        rewrite_.add(node.op, std::move(inputs), std::move(attrs), types, graph_.value(node.outputs[0]).mesh, id);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      Value& value = rewrite_.graph().value(rewrite_.graph().node(new_node).outputs[i]);
      value.mesh = graph_.value(node.outputs[i]).mesh;
      value.layout = graph_.value(node.outputs[i]).layout;
    }
    return rewrite_.graph().node(new_node).outputs;
  }

  const Graph& graph_;
  const OpDef* cast_op_;
  Rewrite rewrite_;
};

// Converts an f32 program to mixed precision.
class MixedPrecision : public CastRewriter {
 public:
  MixedPrecision(const Graph& graph, const OpTable& ops, DType low_type, bool has_low_matmul)
      : CastRewriter(graph, ops),
        low_type_(low_type),
        has_low_matmul_(has_low_matmul),
        is_low_(graph.values.size()),
        follows_others_(graph.values.size()),
        is_stored_low_(graph.values.size()),
        versions_(graph.values.size()) {}

  Graph run() {
    for (NodeId n : graph_.nodes.ids()) decide(n);
    choose_stored();
    for (NodeId n : graph_.nodes.ids()) write(n);
    for (const Output& output : graph_.outputs)
      rewrite_.map(output.value, cast_wide(output.value, graph_.value(output.value).producer));
    for (const Variable& variable : graph_.variables) {
      if (variable.updated.valid())
        rewrite_.map(variable.updated, cast_wide(variable.updated, graph_.value(variable.updated).producer));
    }
    return rewrite_.finish();
  }

 private:
  struct CastVersions {
    ValueId unrounded;  // the computed value
    ValueId rounded;
    ValueId widened;  // the rounded value, cast back to f32
  };

  bool is_f32(ValueId value) const { return graph_.type(value).dtype == DType::f32; }
  bool has_other_floats(const Node& node) const {
    const auto is_other_float = [&](ValueId v) { return is_float(graph_.type(v).dtype) && !is_f32(v); };
    return std::any_of(node.inputs.begin(), node.inputs.end(), is_other_float) ||
           std::any_of(node.outputs.begin(), node.outputs.end(), is_other_float);
  }

  // Decides which results have the low type. Constants, variables and windows on them take the type of the other
  // operands that their consumer reads.
  void decide(NodeId id) {
    const Node& node = graph_.node(id);
    const HalfPolicy half_policy = half_policy_of(*node.op);
    if (half_policy == HalfPolicy::multiply && graph_.type(node.inputs[0]).dtype == DType::f64)
      fail(ErrorKind::type, "amp: ", describe(graph_, id),
           " multiplies f64, but mixed precision requires f32; cast its operands to f32, or omit amp");
    const bool is_constant_or_state = node.op->role == Role::constant || node.op->role == Role::state;
    follows_others_[node.outputs[0]] =
        is_constant_or_state || (node.op->role == Role::window && follows_others_[node.inputs[0]]);
    if (has_other_floats(node) || half_policy == HalfPolicy::widen) return;
    bool any_low = false, all_low_or_weak = true;
    for (ValueId in : node.inputs) {
      if (!is_f32(in)) continue;
      any_low |= is_low_[in];
      all_low_or_weak &= is_low_[in] || follows_others_[in];
    }
    const bool is_low_result =
        half_policy == HalfPolicy::multiply ? is_f32(node.inputs[0]) : any_low && all_low_or_weak;
    for (ValueId out : node.outputs) is_low_[out] = is_low_result && is_f32(out);
  }

  // A value of the low type is stored rounded if a consumer reads the rounded value. If the only consumer computes in
  // f32, it reads the unrounded value.
  void choose_stored() {
    const auto uses = uses_of(graph_);
    ById<ValueId, bool> is_output(graph_.values.size());
    for (const Output& output : graph_.outputs) is_output[output.value] = true;
    for (ValueId v : graph_.values.ids()) {
      if (!is_low_[v]) continue;
      for (const Use& use : uses[v]) {
        const Node& reader = graph_.node(use.node);
        const HalfPolicy half_policy = half_policy_of(*reader.op);
        const bool is_low_result = !reader.outputs.empty() && is_low_[reader.outputs[0]];
        const bool is_only_use = uses[v].size() == 1 && !is_output[v];
        is_stored_low_[v] = is_stored_low_[v] || half_policy == HalfPolicy::multiply ||
                            (is_low_result && (half_policy == HalfPolicy::keep || !is_only_use));
      }
    }
  }

  ValueId cast_low(ValueId v, NodeId source) {
    CastVersions& versions = versions_[v];
    if (!versions.rounded.valid()) versions.rounded = cast(versions.unrounded, low_type_, source);
    return versions.rounded;
  }
  ValueId cast_back(ValueId v, NodeId source) {
    const ValueId rounded = cast_low(v, source);
    CastVersions& versions = versions_[v];
    if (!versions.widened.valid()) versions.widened = cast(rounded, DType::f32, source);
    return versions.widened;
  }
  ValueId cast_wide(ValueId v, NodeId source) {
    return is_low_[v] && (is_stored_low_[v] || !versions_[v].unrounded.valid()) ? cast_back(v, source)
                                                                                : versions_[v].unrounded;
  }

  void write(NodeId id) {
    const Node& node = graph_.node(id);
    const HalfPolicy half_policy = half_policy_of(*node.op);
    const bool low_result = is_low_[node.outputs[0]];
    std::vector<ValueId> inputs;
    for (ValueId in : node.inputs) {
      if (!is_f32(in)) inputs.push_back(versions_[in].unrounded);
      else if (low_result && half_policy == HalfPolicy::multiply)
        inputs.push_back(has_low_matmul_ ? cast_low(in, id) : cast_back(in, id));
      else if (low_result && half_policy == HalfPolicy::keep) inputs.push_back(cast_low(in, id));
      else inputs.push_back(cast_wide(in, id));
    }
    Attrs attrs = node.attrs;
    if (!low_result || half_policy == HalfPolicy::widen_and_round) {
      rewrite_.keep(id, std::move(inputs));
      for (ValueId out : node.outputs) versions_[out].unrounded = rewrite_.at(out);
      return;
    }
    if (half_policy == HalfPolicy::multiply && has_low_matmul_) attrs.set("wide", true);
    const std::vector<ValueId> outputs = rebuild(id, std::move(inputs), std::move(attrs));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      CastVersions& versions = versions_[node.outputs[i]];
      (half_policy == HalfPolicy::keep && is_low_[node.outputs[i]] ? versions.rounded : versions.unrounded) =
          outputs[i];
      rewrite_.map(node.outputs[i], outputs[i]);
    }
  }

  DType low_type_;
  bool has_low_matmul_;  // whether a kernel multiplies the low type; otherwise products run in f32
  ById<ValueId, bool> is_low_, follows_others_, is_stored_low_;
  ById<ValueId, CastVersions> versions_;
};

// Makes ops on values that the program itself declares as bf16 or f16 compute in f32.
class HalfWidening : public CastRewriter {
 public:
  HalfWidening(const Graph& graph, const OpTable& ops, bool has_low_matmul)
      : CastRewriter(graph, ops),
        has_low_matmul_(has_low_matmul),
        casts_back_(graph.values.size()) {}

  Graph run() {
    for (NodeId n : graph_.nodes.ids())
      if (!is_widened(graph_.node(n))) rewrite_.keep(n);
      else widen(n);
    return rewrite_.finish();
  }

 private:
  bool is_half_value(ValueId value) const { return is_half(graph_.type(value).dtype); }
  bool is_native_product(const Node& node) const {
    return has_low_matmul_ && half_policy_of(*node.op) == HalfPolicy::multiply &&
           graph_.type(node.inputs[0]).dtype == DType::bf16;
  }
  bool is_widened(const Node& node) const {
    const auto is_half_operand = [&](ValueId v) { return is_half_value(v); };
    if (std::none_of(node.inputs.begin(), node.inputs.end(), is_half_operand) &&
        std::none_of(node.outputs.begin(), node.outputs.end(), is_half_operand))
      return false;
    return half_policy_of(*node.op) != HalfPolicy::keep && !(is_native_product(node) && node.attrs.flag("wide", false));
  }

  void widen(NodeId id) {
    const Node& node = graph_.node(id);
    Attrs attrs = node.attrs;
    if (is_native_product(node)) attrs.set("wide", true);
    else attrs.erase("wide");
    if (attrs.has("dtype") && is_half(graph_.type(node.outputs[0]).dtype))
      attrs.set("dtype", std::string(name_of(DType::f32)));
    std::vector<ValueId> inputs;
    for (ValueId in : node.inputs)
      inputs.push_back(is_half_value(in) && !is_native_product(node) ? cast_back(in, id) : rewrite_.at(in));
    const std::vector<ValueId> outputs = rebuild(id, std::move(inputs), std::move(attrs));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Value& old = graph_.value(node.outputs[i]);
      const ValueId result = cast(outputs[i], old.type.dtype, id);
      if (result != outputs[i])
        std::swap(rewrite_.graph().value(result).layout, rewrite_.graph().value(outputs[i]).layout);
      rewrite_.map(node.outputs[i], result);
    }
  }
  ValueId cast_back(ValueId value, NodeId source) {
    if (!casts_back_[value].valid()) casts_back_[value] = cast(rewrite_.at(value), DType::f32, source);
    return casts_back_[value];
  }

  bool has_low_matmul_;
  ById<ValueId, ValueId> casts_back_;
};

bool has_halves(const Graph& graph) {
  return std::any_of(graph.values.begin(), graph.values.end(),
                     [](const Value& value) { return is_half(value.type.dtype); });
}

}  // namespace

bool needs_casts(const Graph& graph, std::optional<DType> low_type) { return low_type || has_halves(graph); }

Graph cast_halves(Graph graph, const OpTable& ops, const KernelCatalog& catalog, std::optional<DType> low_type) {
  if (!needs_casts(graph, low_type)) return graph;
  const bool has_bf16_matmul = has_fast_matmul(catalog, DType::bf16);
  if (low_type) graph = MixedPrecision(graph, ops, *low_type, has_bf16_matmul && *low_type == DType::bf16).run();
  return has_halves(graph) ? HalfWidening(graph, ops, has_bf16_matmul).run() : graph;
}

}  // namespace karez::passes
