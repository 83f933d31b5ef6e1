// For tests: a search over all layout choices of a program, which shares only the cost table with the planner.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "karez/passes/lowering/fuse/fused_values.h"
#include "karez/passes/namespace.h"
#include "karez/passes/sharding/test_trees.h"
#include "karez/passes/test_programs.h"
#include "karez/passes/test_random_graphs.h"

namespace karez::passes::testing {

// Tries every combination of the nodes' choices. With `constants_at_load`, values that the setup computes cost nothing.
// Nor do the accesses to `fused` values, where all consumers require the layout that is produced.
class BruteForce {
 public:
  BruteForce(const Graph& graph, const CostTable& costs, bool constants_at_load = false, FusedValues fused = {})
      : graph_(graph),
        mesh_(graph.meshes[0]),
        costs_(costs),
        constants_at_load_(constants_at_load),
        fused_(std::move(fused)) {
    fused_.resize(graph.values.size());
    for (NodeId n : graph.nodes.ids()) {
      auto& node_choices = choices_.emplace_back();
      for (auto& axes : mesh_shardings({&graph, n}, mesh_))
        if (is_allowed(n, axes)) node_choices.push_back(std::move(axes));
    }
  }
  double count() const {
    double out = 1;
    for (const auto& list : choices_) out *= static_cast<double>(list.size());
    return out;
  }
  using Chosen = ById<NodeId, std::size_t>;
  // Returns the seconds of one choice for every node; infinite if the zeros of a masked sum may meet an infinity.
  double price(const Chosen& chosen) {
    if (!is_sound(chosen)) return INFINITY;
    if (values_.empty()) {
      for (NodeId n : choices_.ids()) {
        auto& node_choices = compute_.emplace_back();
        for (const auto& axes : choices_[n]) node_choices.push_back(compute_seconds(n, axes));
      }
      for (ValueId v : graph_.values.ids()) values_.push_back(price_value(v));
    }
    double sum = 0;
    const std::set<NodeId> replicated_nodes = replicated_at_load(chosen);
    for (NodeId n : chosen.ids())
      if (!computed_at_load(n, replicated_nodes)) sum += compute_[n][chosen[n]];
    for (PricedValue& value : values_)
      if (const NodeId producer = graph_.value(value.value).producer;
          replicated_nodes.count(producer) == 0 || !has_call(producer, replicated_nodes))
        sum += seconds_of(value, chosen);
    return sum;
  }
  Chosen random_choice(Random& random) const {
    Chosen chosen(choices_.size(), 0);
    for (NodeId n : chosen.ids()) chosen[n] = pick(random, choices_[n].size());
    return chosen;
  }
  // Changes one node at a time as long as the cost decreases, and returns the final cost.
  double improve(Chosen chosen) {
    double best = price(chosen);
    for (bool better = true; better;) {
      better = false;
      for (NodeId n : chosen.ids()) {
        std::size_t best_choice = chosen[n];
        for (std::size_t c = 0; c < choices_[n].size(); ++c) {
          chosen[n] = c;
          const double cost = price(chosen);
          if (cost < best * (1 - 1e-12)) best = cost, best_choice = c, better = true;
        }
        chosen[n] = best_choice;
      }
    }
    return best;
  }
  double best() {
    Chosen chosen(choices_.size(), 0);
    double best = INFINITY;
    while (true) {
      best = std::min(best, price(chosen));
      int n = 0;
      for (; chosen.has(NodeId(n)) && ++chosen[NodeId(n)] == choices_[NodeId(n)].size(); ++n) chosen[NodeId(n)] = 0;
      if (!chosen.has(NodeId(n))) return best;
    }
  }

 private:
  using Axes = std::vector<Sharding>;

  bool is_view(NodeId n) const {
    const std::string& op = graph_.nodes[n].op->name;
    return op == "reshape" || op == "transpose" || op == "broadcast";
  }
  // Returns the nodes that no launch runs and whose values are Broadcast.
  std::set<NodeId> replicated_at_load(const Chosen& chosen) const {
    std::set<NodeId> replicated_nodes;
    for (NodeId n : chosen.ids()) {
      const Node& node = graph_.nodes[n];
      const Axes& axes = choices_[n][chosen[n]];
      const bool is_broadcast =
          std::all_of(axes.begin(), axes.end(), [](const Sharding& axis) { return axis.out[0] == B(); });
      const bool is_constant_node = node.op->name == "constant" || node.op->name == "iota" ||
                                    (is_view(n) && replicated_nodes.count(producer_of_operand(n)) > 0) ||
                                    computed_at_load(n, replicated_nodes);
      if (is_broadcast && is_constant_node) replicated_nodes.insert(n);
    }
    return replicated_nodes;
  }
  NodeId producer_of_operand(NodeId view) const { return graph_.value(graph_.nodes[view].inputs[0]).producer; }
  bool computed_at_load(NodeId n, const std::set<NodeId>& replicated_nodes) const {
    const Node& node = graph_.nodes[n];
    if (!constants_at_load_ || node.inputs.empty() || is_view(n)) return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](ValueId in) { return replicated_nodes.count(graph_.value(in).producer) > 0; });
  }
  // True if a call computes the value, or the value is a view of such a value.
  bool has_call(NodeId n, const std::set<NodeId>& replicated_nodes) const {
    return is_view(n) ? has_call(producer_of_operand(n), replicated_nodes) : computed_at_load(n, replicated_nodes);
  }

  struct PricedValue {
    ValueId value;
    std::set<NodeId> nodes;
    std::map<std::size_t, double> cached;  // by the choices of the nodes
  };

  static Layout layout_of(const Axes& axes, bool out, std::size_t index) {
    Layout layout;
    for (const Sharding& sharding : axes) layout.push_back(out ? sharding.out[index] : sharding.in[index]);
    return layout;
  }

  bool is_allowed(NodeId n, const Axes& axes) const {
    const Node& node = graph_.nodes[n];
    if (auto fixed = graph_.value(node.outputs[0]).layout; fixed && *fixed != layout_of(axes, true, 0)) return false;
    for (const Variable& variable : graph_.variables)
      if (variable.read == node.outputs[0] && variable.stored && *variable.stored != layout_of(axes, true, 0))
        return false;
    for (const Sharding& axis : axes)
      for (std::size_t k = 0; k < axis.in.size(); ++k)
        if (axis.in[k] == P() && is_product(node, k) && !can_be_dense(node.inputs[k])) return false;
    return true;
  }

  const Node& producer_of(ValueId value) const { return graph_.node(graph_.value(value).producer); }

  // True if the value can be a Partial sum whose terms are true partial sums, not one element and zeros.
  bool can_be_dense(ValueId value) const {
    const Node& node = producer_of(value);
    const std::string& op = node.op->name;
    if (op == "matmul" && graph_.type(node.inputs[0]).shape[1] > 1) return true;
    if (op == "reduce_sum" && graph_.type(node.inputs[0]).count() > graph_.type(value).count()) return true;
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (op == "relu" || (op == "gather" && k == 1)) continue;
      if (can_be_dense(node.inputs[k])) return true;
    }
    return false;
  }
  bool is_constant(ValueId value) const {
    const Node& node = producer_of(value);
    const std::string& op = node.op->name;
    return op == "constant" ||
           ((op == "reshape" || op == "transpose" || op == "broadcast") && is_constant(node.inputs[0]));
  }
  bool is_product(const Node& node, std::size_t operand) const {
    return (node.op->name == "mul" || node.op->name == "matmul") && !is_constant(node.inputs[1 - operand]);
  }

  // True if sums of the value may reach a product with a factor that is not constant, through ops that pass the sums.
  bool meets_product(ValueId value) const {
    for (const Node& node : graph_.nodes)
      for (std::size_t k = 0; k < node.inputs.size(); ++k) {
        if (node.inputs[k] != value || node.op->name == "relu" || (node.op->name == "gather" && k == 1)) continue;
        if (is_product(node, k) || meets_product(node.outputs[0])) return true;
      }
    return false;
  }

  // True if all sums are passed legally. A product, and an op whose result reaches a product, may pass sums if the sums
  // of one operand are dense. Sums that can never be dense may also pass, but not through a product with a factor that
  // may not be finite.
  bool is_sound(const Chosen& chosen) const {
    std::vector<bool> dense(graph_.values.size(), false);
    for (NodeId n : chosen.ids()) {
      const Node& node = graph_.nodes[n];
      const Axes& axes = choices_[n][chosen[n]];
      bool all_dense = true;
      std::map<std::set<std::size_t>, std::set<std::size_t>>
          passes;  // by operands: the axes on which exactly these operands are sums
      for (std::size_t a = 0; a < axes.size(); ++a) {
        std::set<std::size_t> sums;
        for (std::size_t k = 0; k < axes[a].in.size(); ++k)
          if (axes[a].in[k] == P()) sums.insert(k);
        if (!sums.empty()) passes[sums].insert(a);
        else if (axes[a].out[0] == P() && node.op->name == "gather") all_dense = false;
      }
      for (const auto& [operands, axes_of_sums] : passes) {
        bool may_be_dense = false, is_dense = false;
        for (std::size_t k : operands) {
          const ValueId value = node.inputs[k];
          const Axes& producer_axes = choices_[graph_.value(value).producer][chosen[graph_.value(value).producer]];
          may_be_dense = may_be_dense || can_be_dense(value);
          is_dense = is_dense || (dense[static_cast<std::size_t>(value.index)] &&
                                  std::all_of(axes_of_sums.begin(), axes_of_sums.end(),
                                              [&](std::size_t a) { return producer_axes[a].out[0] == P(); }));
        }
        if (may_be_dense && !is_dense && (is_product(node, *operands.begin()) || meets_product(node.outputs[0])))
          return false;
        all_dense = all_dense && is_dense;
      }
      dense[static_cast<std::size_t>(node.outputs[0].index)] = all_dense;
    }
    return true;
  }

  // Returns the seconds of the slowest device.
  double compute_seconds(NodeId n, const Axes& axes) const {
    const Node& node = graph_.nodes[n];
    for (const char* view : {"reshape", "transpose", "broadcast", "variable", "constant", "iota"})
      if (node.op->name == view) return 0;
    double slowest = 0;
    for (int device = 0; device < mesh_.size(); ++device) {
      std::vector<TensorType> in, out;
      auto part = [&](ValueId value, const Layout& layout) {
        return TensorType{graph_.type(value).dtype,
                          shape_of(local_box(graph_.type(value).shape, mesh_, layout, device))};
      };
      for (std::size_t i = 0; i < node.inputs.size(); ++i)
        in.push_back(part(node.inputs[i], layout_of(axes, false, i)));
      out.push_back(part(node.outputs[0], layout_of(axes, true, 0)));
      Cost cost = cost_of(*node.op, in, out, node.attrs);
      for (std::size_t i = 0; i < in.size(); ++i)
        if (fused_[node.inputs[i]].reads > 0) cost.bytes -= static_cast<double>(in[i].bytes());
      if (fused_[node.outputs[0]].written) cost.bytes -= static_cast<double>(out[0].bytes());
      cost.bytes = std::max(cost.bytes, 0.0);
      const double saved = fused_[node.outputs[0]].called ? costs_.call : 0;
      slowest = std::max(slowest, cost.bytes > 0 || cost.flops > 0 ? costs_.seconds(cost) - saved : 0);
    }
    return slowest;
  }

  PricedValue price_value(ValueId value) const {
    PricedValue out{value, {graph_.value(value).producer}, {}};
    for (NodeId n : graph_.nodes.ids())
      for (ValueId in : graph_.nodes[n].inputs)
        if (in == value) out.nodes.insert(n);
    for (const Variable& variable : graph_.variables)
      if (variable.updated == value) out.nodes.insert(graph_.value(variable.read).producer);
    return out;
  }

  // Returns the seconds of writing and reading a value that could fuse.
  double stored_seconds(ValueId value, const Layout& layout) const {
    const FusedValue& fused = fused_[value];
    if (!fused.fuses()) return 0;
    const TensorType& type = graph_.type(value);
    const TensorType part{type.dtype, shape_of(local_box(type.shape, mesh_, layout, 0))};
    const double accesses = fused.reads + (fused.written ? 1.0 : 0.0);
    const double seconds = costs_.seconds({.bytes = accesses * static_cast<double>(part.bytes())});
    return fused.called ? seconds : seconds - costs_.call;
  }

  double seconds_of(PricedValue& priced, const ById<NodeId, std::size_t>& chosen) {
    std::size_t cell = 0;
    for (NodeId n : priced.nodes) cell = cell * choices_[n].size() + chosen[n];
    auto [entry, inserted] = priced.cached.try_emplace(cell, 0);
    double& cached = entry->second;
    if (!inserted) return cached;
    auto produced_layout = [&](ValueId value) {
      NodeId n = graph_.value(value).producer;
      return layout_of(choices_[n][chosen[n]], true, 0);
    };
    Layout from = produced_layout(priced.value);
    std::set<Layout> targets;
    for (NodeId n : priced.nodes)
      for (std::size_t i = 0; i < graph_.nodes[n].inputs.size(); ++i)
        if (graph_.nodes[n].inputs[i] == priced.value) targets.insert(layout_of(choices_[n][chosen[n]], false, i));
    for (const Output& output : graph_.outputs)
      if (output.value == priced.value) targets.insert(output.layout ? *output.layout : Layout(mesh_.axes.size(), B()));
    for (const Variable& variable : graph_.variables)
      if (variable.updated == priced.value)
        targets.insert(produced_layout(variable.read));  // back to its stored layout
    targets.erase(from);
    std::set<Sbp> partials;
    for (Sbp entry : from) partials.insert(entry);
    for (const Layout& target : targets) partials.insert(target.begin(), target.end());
    std::erase_if(partials, [](Sbp entry) { return !entry.is_partial(); });
    const TensorType& type = graph_.type(priced.value);
    auto trees = trees_.try_emplace({print(type), partials}, type, mesh_, partials, costs_).first;
    return cached = trees->second.cheapest(from, targets) + (targets.empty() ? 0 : stored_seconds(priced.value, from));
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const CostTable& costs_;
  const bool constants_at_load_;
  FusedValues fused_;
  ById<NodeId, std::vector<Axes>> choices_;
  ById<NodeId, std::vector<double>> compute_;
  std::vector<PricedValue> values_;
  std::map<std::pair<std::string, std::set<Sbp>>, TransitionTrees> trees_;
};

}  // namespace karez::passes::testing
