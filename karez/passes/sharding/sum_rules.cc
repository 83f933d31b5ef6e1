// Derives dense and masked sums from the ops' signatures and the values of constants.
#include "karez/passes/sharding/sum_rules.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "karez/base/attr_cast.h"
#include "karez/base/hex.h"

namespace karez::passes {
namespace {
bool is_sum(Sbp entry) { return entry.is_partial() && entry.reduce == Reduce::sum; }

// True if all elements are known to be finite, because the value is a constant or only moves the elements of one.
bool known_finite(const Graph& graph, ValueId value, bool not_zero) {
  const NodeId id = graph.value(value).producer;
  const Node& node = graph.node(id);
  if (node.op->role != Role::constant) {
    if (node.inputs.size() != 1 || node.op->role == Role::transfer || !signature_of({&graph, id}).moves) return false;
    return known_finite(graph, node.inputs[0], not_zero);
  }
  const DType dtype = graph.type(value).dtype;
  if (dtype != DType::f32 && dtype != DType::f64) return false;
  bool is_good = true;
  const auto check = [&](double x) { is_good = is_good && std::isfinite(x) && (!not_zero || x != 0); };
  if (node.attrs.has("value")) {
    const double x = base::attr_cast<double>(base::attr_at(node.attrs, "value"));
    check(dtype == DType::f32 ? static_cast<float>(x) : x);
    return is_good;
  }
  if (!node.attrs.has("data")) return false;
  const std::vector<std::byte> bytes = base::bytes_of_hex(node.attrs.text("data"));
  for (std::size_t offset = 0; offset < bytes.size() && is_good; offset += static_cast<std::size_t>(size_of(dtype))) {
    if (dtype == DType::f32) {
      float number = 0;
      std::memcpy(&number, &bytes[offset], sizeof number);
      check(number);
    } else {
      double number = 0;
      std::memcpy(&number, &bytes[offset], sizeof number);
      check(number);
    }
  }
  return is_good;
}

// True if operands outside of the group may turn its zeros into NaN.
bool multiplies(const Graph& graph, const Node& node, const Signature& s, const std::vector<int>& group) {
  for (int k = 0; k < static_cast<int>(node.inputs.size()); ++k) {
    if (std::find(group.begin(), group.end(), k) != group.end()) continue;
    const ValueId value = node.inputs[static_cast<std::size_t>(k)];
    if (!is_float(graph.type(value).dtype)) continue;
    const auto effect_entry = s.outside.find(k);
    const auto effect = effect_entry == s.outside.end() ? Signature::OutsideEffect::factor : effect_entry->second;
    if (effect == Signature::OutsideEffect::condition) continue;
    if (effect == Signature::OutsideEffect::unknown ||
        !known_finite(graph, value, effect == Signature::OutsideEffect::divisor))
      return true;
  }
  return false;
}

}  // namespace

bool Sums::can_be_dense() const {
  return !masked &&
         std::none_of(passes.begin(), passes.end(), [](const SumPass& pass) { return pass.operands.empty(); });
}

std::optional<Sums> SumRules::in(NodeId id, std::span<const Layout> ins, std::span<const Layout> outs) const {
  const NodeRules& node = nodes_[id];
  Sums sums;
  std::vector<const Group*> passing;  // parallel to sums.passes
  for (std::size_t axis = 0; axis < outs[0].size(); ++axis) {
    if (std::none_of(outs.begin(), outs.end(), [&](const Layout& out) { return is_sum(out[axis]); })) continue;
    for (const auto& [operand, dim] : node.masked)
      sums.masked = sums.masked || ins[static_cast<std::size_t>(operand)][axis].is_split(dim);
    std::vector<int> partial;
    for (std::size_t k = 0; k < ins.size(); ++k)
      if (is_sum(ins[k][axis])) partial.push_back(static_cast<int>(k));
    const auto group = std::find_if(node.groups.begin(), node.groups.end(), [&](const Group& one) {
      return one.operands.size() == partial.size() &&
             std::is_permutation(partial.begin(), partial.end(), one.operands.begin());
    });
    if (group == node.groups.end()) continue;  // this node makes the sum
    if (group->product && group->dense.size() < group->operands.size()) return std::nullopt;
    const auto same_group = std::find(passing.begin(), passing.end(), &*group);
    if (same_group == passing.end()) {
      passing.push_back(&*group);
      sums.passes.push_back(
          {group->dense, {static_cast<int>(axis)}, group->product || (group->picks && !group->dense.empty())});
    } else {
      sums.passes[static_cast<std::size_t>(same_group - passing.begin())].axes.push_back(static_cast<int>(axis));
    }
  }
  if (!node.meets_product) {  // no product reads the result
    sums.masked = false;
    std::size_t offset = 0;
    std::erase_if(sums.passes, [&](const SumPass&) { return !passing[offset++]->product; });
  }
  return sums;
}

void SumRules::add(NodeId id) {
  const Node& node = graph_.node(id);
  NodeRules& rules = nodes_[id];
  const bool floats = std::all_of(node.outputs.begin(), node.outputs.end(),
                                  [&](ValueId out) { return is_float(graph_.type(out).dtype); });
  if (node.op->role == Role::transfer || node.inputs.empty() || !floats) return;
  const Signature s = signature_of({&graph_, id});
  bool dense = false;
  auto groups = s.linear;
  if (s.moves) groups.push_back({0});
  for (std::vector<int>& operands : groups) {
    if (operands.empty()) continue;
    Group group{std::move(operands), {}, false};
    for (int k : group.operands)
      if (dense_[node.inputs[static_cast<std::size_t>(k)]]) group.dense.push_back(k);
    group.product = multiplies(graph_, node, s, group.operands);
    const bool all = group.dense.size() == group.operands.size();
    group.picks = s.picks && group.operands.size() > 1;
    if (group.picks && !all) group.dense.clear();
    dense = dense || (group.product ? all : !group.dense.empty());
    rules.groups.push_back(std::move(group));
  }
  for (std::size_t k = 0; k < s.in.size(); ++k)
    for (std::size_t d = 0; d < s.in[k].size(); ++d) {
      const std::string& letter = s.in[k][d];
      const auto kind = s.reduced.find(letter);
      if (letter == never_split || graph_.type(node.inputs[k]).shape[d] == 1) continue;
      if (kind != s.reduced.end() && kind->second != Reduce::sum) continue;
      if (std::all_of(s.out.begin(), s.out.end(),
                      [&](const auto& out) { return std::count(out.begin(), out.end(), letter) != 0; }))
        continue;
      if (s.masked.count(letter) != 0) rules.masked.emplace_back(static_cast<int>(k), static_cast<int>(d));
      else dense = true;
    }
  for (ValueId out : node.outputs) dense_[out] = dense;
}

SumRules::SumRules(const Graph& graph) : graph_(graph), nodes_(graph.nodes.size()), dense_(graph.values.size(), false) {
  for (NodeId n : graph.nodes.ids()) add(n);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const NodeId n(i);
    for (const Group& group : nodes_[n].groups) {
      if (!group.product && !nodes_[n].meets_product) continue;
      for (int k : group.operands)
        nodes_[graph.value(graph.node(n).inputs[static_cast<std::size_t>(k)]).producer].meets_product = true;
    }
  }
}

}  // namespace karez::passes
