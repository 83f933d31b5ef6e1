// Finds groups of values that share a dimension order, collects the orders that kernels prefer, and chooses the
// cheapest.
#include "karez/passes/lowering/layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "karez/base/text.h"
#include "karez/ops/local_views.h"
#include "karez/passes/lowering/call.h"
#include "karez/passes/lowering/dimension_order.h"
#include "karez/passes/lowering/stride_choice.h"
#include "karez/passes/node_traits.h"
#include "karez/passes/scheduling/order.h"
#include "karez/passes/sharding/device_cost.h"
#include "karez/sbp/transition.h"
#include "karez/solve/min_sum.h"

namespace karez::passes {
namespace {

// Values with the same order, such as the results of a chain of pointwise calls, or operand and result of a transfer.
struct OrderGroup {
  std::vector<Ints> orders;  // candidates; the first is row-major
  std::size_t chosen = 0;
  int variable = -1;  // the variable of the factor graph; -1 for a single candidate
};

class OrderChooser {
 public:
  OrderChooser(const Graph& graph, const KernelCatalog& catalog, const CostTable& costs)
      : graph_(graph),
        catalog_(catalog),
        costs_(costs) {
    kind_.assign(graph_.values.size(), Kind::free);
    for (ValueId v : graph_.values.ids()) parent_.push_back(v);
  }

  DimensionOrders run() {
    classify();
    join_groups();
    known_views_.emplace(graph_.values.size());
    gather_orders();
    known_views_.reset();
    solve();
    DimensionOrders out(graph_.values.size());
    for (ValueId v : out.ids()) {
      const OrderGroup* group = find_group(v);
      if (group != nullptr && group->chosen > 0) out[v] = group->orders[group->chosen];
    }
    return out;
  }

 private:
  enum class Kind : std::uint8_t {
    free,       // the result of a call, whose order this pass chooses
    window,     // a view of another value through different strides
    repeated,   // a splat, whose strides are all 0
    row_major,  // an input, which the host fills
    stored,     // a variable, before or after an update in place
  };
  Kind kind(ValueId value) const { return kind_[value]; }
  const Node& producer(ValueId value) const { return graph_.node(graph_.value(value).producer); }

  static Kind kind_of(const Node& node) {
    switch (node.op->role) {
      case Role::source: return Kind::row_major;
      case Role::state: return Kind::stored;
      case Role::constant: return node.attrs.has("value") ? Kind::repeated : Kind::free;
      case Role::window: return Kind::window;
      case Role::transition: return move_from(node.attrs.text("move")) == Move::slice ? Kind::window : Kind::free;
      default: return Kind::free;
    }
  }

  void classify() {
    for (const Node& node : graph_.nodes)
      for (ValueId out : node.outputs) kind_[out] = kind_of(node);
    const std::vector<bool> in_place = updates_in_place(graph_);
    for (std::size_t v = 0; v < graph_.variables.size(); ++v)
      if (in_place[v]) kind_[graph_.variables[v].updated] = Kind::stored;
  }

  ValueId find(ValueId v) {
    while (parent_[v] != v) v = parent_[v] = parent_[parent_[v]];
    return v;
  }
  void join(ValueId a, ValueId b) {
    ValueId x = find(a), y = find(b);
    parent_[std::max(x, y)] = std::min(x, y);
  }

  void join_groups() {
    for (const Node& node : graph_.nodes) {
      if (crosses_devices(node) || (node.op->role == Role::transition && kind(node.outputs[0]) == Kind::free)) {
        // A transfer's operand has the order of its result; an operand with another order is copied first.
        if (kind(node.inputs[0]) != Kind::free) transfer_operands_.push_back(node.inputs[0]);
        join(node.inputs[0], node.outputs[0]);
      }
      const Role role = node.op->role;
      const bool keeps_order =
          node.op->elementwise || role == Role::accumulate || role == Role::micro_join || role == Role::micro_slice;
      if (keeps_order && kind(node.outputs[0]) == Kind::free)
        for (ValueId in : node.inputs)
          if (kind(in) == Kind::free) join(in, node.outputs[0]);
    }
    for (ValueId v : graph_.values.ids()) {
      if (find(v) != v) continue;
      Ints row_major(graph_.type(v).shape.size());
      std::iota(row_major.begin(), row_major.end(), 0);
      groups_[v].orders = {row_major};
    }
    has_order_.assign(graph_.values.size(), false);
    for (ValueId value : transfer_operands_) has_order_[value] = true;
    for (ValueId v : graph_.values.ids())
      if (kind(v) == Kind::free) has_order_[v] = true;
  }
  OrderGroup& group(ValueId value) { return groups_.at(find(value)); }
  const OrderGroup* find_group(ValueId value) { return has_order_[value] ? &group(value) : nullptr; }

  Shape local_shape(ValueId value) const {
    if (graph_.mesh(value).size() == 1) return graph_.type(value).shape;
    return shape_of(local_box(graph_.type(value).shape, graph_.mesh(value), *graph_.value(value).layout, 0));
  }

  // Returns the view of a value on the first device under the current choices of the groups.
  View view_of(ValueId value) {
    if (!known_views_) return make_view(value);
    std::optional<View>& known = (*known_views_)[value];
    if (!known) known = make_view(value);
    return *known;
  }
  View make_view(ValueId value) {
    const TensorType type{graph_.type(value).dtype, local_shape(value)};
    switch (kind(value)) {
      case Kind::repeated: return View(type.dtype, type.shape, Strides(type.shape.size(), 0));
      case Kind::row_major: return View(type);
      case Kind::stored: return stored_view(type.dtype, type.shape);
      case Kind::free: return view_in_order(type.dtype, type.shape, group(value).orders[group(value).chosen]);
      case Kind::window: break;
    }
    const Node& node = producer(value);
    View source = view_of(node.inputs[0]);
    if (node.op->role == Role::transition) return View(type.dtype, type.shape, source.strides);  // a slice
    auto window_view = window_at(graph_.value(value).producer, source);
    return window_view ? *window_view : *window_at(graph_.value(value).producer, View(source.type()));
  }

  // Returns the view of a window's result for the given view of its operand, or nullopt if strides cannot express it.
  std::optional<View> window_at(NodeId id, const View& source) const {
    const Node& node = graph_.node(id);
    auto result = node.op->window(source, local_shape(node.outputs[0]), graph::localise(local_at(id)));
    return result ? std::optional(result->view) : std::nullopt;
  }

  LocalView local_at(NodeId id) const {
    LocalView local{{&graph_, id}, {}, {}};
    auto box = [&](ValueId v) { return local_box(graph_.type(v).shape, graph_.mesh(v), *graph_.value(v).layout, 0); };
    for (ValueId v : graph_.node(id).inputs) local.in.push_back(box(v));
    for (ValueId v : graph_.node(id).outputs) local.out.push_back(box(v));
    return local;
  }

  // Adds the group of the free value that determines the view of `value`, if there is one.
  void roots_of(ValueId value, std::vector<ValueId>& roots) {
    while (kind(value) == Kind::window) value = producer(value).inputs[0];
    if (kind(value) == Kind::free) roots.push_back(find(value));
  }

  void offer(ValueId value, const Ints& order) {
    OrderGroup& candidates = group(value);
    const Shape shape = local_shape(value);
    constexpr std::size_t max_orders = 6;
    const Strides strides = view_in_order(DType::b8, shape, order).strides;
    for (const Ints& known_order : candidates.orders)
      if (same_order(shape, view_in_order(DType::b8, shape, known_order).strides, strides)) return;
    if (candidates.orders.size() < max_orders) candidates.orders.push_back(order);
  }

  static bool is_call(const Node& node) {
    return node.op->role == Role::compute || node.op->role == Role::update || node.op->role == Role::store;
  }

  // Returns the call that localise creates for the node on the first device.
  CallSpec call_at(NodeId id) {
    NodeView view{&graph_, id};
    std::vector<View> in, out;
    for (ValueId v : view.node().inputs) in.push_back(view_of(v));
    for (ValueId v : view.node().outputs) out.push_back(view_of(v));
    return call_of(view, std::move(in), std::move(out), graph::localise(local_at(id)));
  }

  // Collects candidate orders from kernels, stored operands of the same shape, windows that strides cannot express, and
  // elementwise calls on windows and stored values.
  void gather_orders() {
    for (NodeId n : graph_.nodes.ids()) {
      const Node& node = graph_.nodes[n];
      if (node.op->role == Role::window && !window_at(n, view_of(node.inputs[0]))) offer_window_order(node);
      if (!is_call(node)) continue;
      if (node.op->elementwise) {
        if (kind(node.outputs[0]) == Kind::free) offer_operand_orders(node);
        continue;
      }
      CallSpec call = call_at(n);
      auto suggested = catalog_.suggest(call);
      auto offer_order = [&](ValueId value, const View& view) {
        if (kind(value) == Kind::free && !has_zero_stride(view)) offer(value, order_of(view));
      };
      std::size_t dropped_operands = node.inputs.size() - call.in.size();  // the old version of an assignment
      for (std::size_t i = 0; suggested && i < call.in.size(); ++i)
        offer_order(node.inputs[i + dropped_operands], suggested->in[i]);
      for (std::size_t i = 0; suggested && i < call.out.size(); ++i) offer_order(node.outputs[i], suggested->out[i]);
      for (std::size_t i = 0; i < call.in.size(); ++i) {
        if (kind(node.inputs[i + dropped_operands]) != Kind::stored) continue;
        for (std::size_t k = 0; k < call.in.size(); ++k)
          if (call.in[k].shape == call.in[i].shape) offer_order(node.inputs[k + dropped_operands], call.in[i]);
      }
    }
  }

  // reshape(transpose(x)) is a window if the order of x makes the transpose row-major. This function is called while
  // all values are row-major, so that strides identify the dimensions of the source.
  void offer_window_order(const Node& node) {
    ValueId source = node.inputs[0];
    const View window_view = view_of(source);
    while (kind(source) == Kind::window) source = producer(source).inputs[0];
    if (kind(source) != Kind::free) return;
    const View source_view = view_of(source);
    if (window_view.shape.size() != source_view.shape.size()) return;
    Ints order;
    std::vector<bool> is_taken(source_view.shape.size(), false);
    for (std::size_t d = 0; d < window_view.shape.size(); ++d)
      for (std::size_t source_dim = 0; source_dim < source_view.shape.size(); ++source_dim) {
        if (is_taken[source_dim] || window_view.shape[d] != source_view.shape[source_dim] ||
            (window_view.shape[d] > 1 && window_view.strides[d] != source_view.strides[source_dim]))
          continue;
        is_taken[source_dim] = true;
        order.push_back(static_cast<std::int64_t>(source_dim));
        break;
      }
    if (order.size() == source_view.shape.size()) offer(source, order);
  }

  void offer_operand_orders(const Node& node) {
    for (ValueId in : node.inputs) {
      if (kind(in) != Kind::window && kind(in) != Kind::stored) continue;
      View operand_view = view_of(in);
      if (!has_zero_stride(operand_view)) offer(node.outputs[0], order_of(operand_view));
    }
  }

  double call_seconds(const CallSpec& call, const Cost& work) {
    auto [entry, inserted] = known_seconds_.try_emplace(print(call), 0.0);
    if (!inserted) return entry->second;
    auto choice = choose_strides(catalog_, costs_, call, work);
    constexpr double missing_kernel_seconds = 1;  // if no other choice remains, localise reports the missing kernel
    entry->second = choice ? choice->seconds : missing_kernel_seconds;
    return entry->second;
  }

  double copy_seconds(const View& from, const View& to) {
    return same_order(from.shape, from.strides, to.strides) ? 0 : call_seconds(copy_call(from, to), copy_work(from));
  }

  // Adds the cost of each joint choice of the groups in `roots`. A concat of many values has too many joint choices. In
  // such a case, each group is tried only together with the first group, while all others are row-major; the additional
  // cost of the group is assumed to depend only on these two.
  template <class Seconds>
  void add_factor(solve::MinSumProblem& problem, std::vector<ValueId> roots, Seconds&& seconds) {
    std::erase_if(roots, [&](ValueId r) { return groups_.at(r).variable < 0; });
    if (roots.empty()) return;
    const ValueId first = roots[0];
    std::sort(roots.begin(), roots.end());
    roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
    constexpr double max_joint = 1024;
    double joint_choices = 1;
    for (ValueId r : roots) joint_choices *= static_cast<double>(groups_.at(r).orders.size());
    if (joint_choices <= max_joint) {
      problem.factors.push_back(solve::factor(variables_of(roots), costs_of(roots, seconds)));
      return;
    }
    const std::vector<double> first_costs = costs_of({first}, seconds);
    problem.factors.push_back(solve::factor(variables_of({first}), first_costs));
    for (ValueId r : roots) {
      if (r == first) continue;
      std::vector<double> additional_costs = costs_of({first, r}, seconds);
      for (std::size_t i = 0; i < additional_costs.size(); ++i)
        additional_costs[i] -= first_costs[i / (additional_costs.size() / first_costs.size())];
      problem.factors.push_back(solve::factor(variables_of({first, r}), std::move(additional_costs)));
    }
  }
  std::vector<int> variables_of(const std::vector<ValueId>& roots) const {
    std::vector<int> variables;
    for (ValueId r : roots) variables.push_back(groups_.at(r).variable);
    return variables;
  }
  // Returns the costs of the joint choices of the roots, of which the last one varies fastest. All other groups are
  // row-major.
  template <class Seconds> std::vector<double> costs_of(const std::vector<ValueId>& roots, Seconds&& seconds) {
    std::vector<double> cost;
    while (true) {
      cost.push_back(seconds());
      std::size_t k = roots.size();
      while (k > 0) {
        OrderGroup& r = groups_.at(roots[k - 1]);
        if (++r.chosen < r.orders.size()) break;
        r.chosen = 0;
        --k;
      }
      if (k == 0) return cost;
    }
  }

  void solve() {
    solve::MinSumProblem problem;
    std::vector<ValueId> group_of_variable;  // the group of each variable
    for (auto& [root, group] : groups_) {
      if (group.orders.size() < 2) continue;
      group.variable = static_cast<int>(group_of_variable.size());
      group_of_variable.push_back(root);
      problem.domain.push_back(static_cast<int>(group.orders.size()));
      std::vector<double> order_costs;  // if costs are equal, the first order wins: row-major
      constexpr double tiny_seconds = 1e-12;
      for (std::size_t i = 0; i < group.orders.size(); ++i)
        order_costs.push_back(tiny_seconds * static_cast<double>(i));
      problem.factors.push_back(solve::factor({group.variable}, std::move(order_costs)));
    }
    if (group_of_variable.empty()) return;
    std::map<ValueId, std::vector<NodeId>> windows;  // by operand
    for (NodeId n : graph_.nodes.ids()) {
      const Node& node = graph_.nodes[n];
      std::vector<ValueId> roots;  // the roots of results come first
      if (node.op->role == Role::window) windows[node.inputs[0]].push_back(n);
      if (!is_call(node)) continue;
      for (ValueId out : node.outputs) roots_of(out, roots);
      for (ValueId in : node.inputs) roots_of(in, roots);
      NodeView view{&graph_, n};
      Cost work = device_work(graph_, view.id);
      add_factor(problem, roots, [&] { return node.acts * call_seconds(call_at(n), work); });
    }
    for (const auto& [source, users] : windows) {  // all windows that strides cannot express share one copy
      std::vector<ValueId> roots;
      roots_of(source, roots);
      add_factor(problem, roots, [&, source = source, &users = users] {
        View source_view = view_of(source);
        for (NodeId user : users)
          if (!window_at(user, source_view)) return copy_seconds(source_view, View(source_view.type()));
        return 0.0;
      });
    }
    for (ValueId value : transfer_operands_) {
      std::vector<ValueId> roots{find(value)};
      roots_of(value, roots);
      add_factor(problem, roots, [&] {
        View source_view = view_of(value);
        return copy_seconds(
            source_view, view_in_order(source_view.dtype, source_view.shape, group(value).orders[group(value).chosen]));
      });
    }
    solve::MinSumResult result = solve::min_sum(problem);
    require(result.feasible, "layout: found no feasible dimension orders: ", result.method);
    for (std::size_t v = 0; v < group_of_variable.size(); ++v)
      groups_.at(group_of_variable[v]).chosen = static_cast<std::size_t>(result.choice[v]);
  }

  const Graph& graph_;
  const KernelCatalog& catalog_;
  const CostTable& costs_;
  ById<ValueId, Kind> kind_;
  ById<ValueId, ValueId> parent_;                                  // in the forest of groups
  std::optional<ById<ValueId, std::optional<View>>> known_views_;  // only while no group changes its order
  ById<ValueId, bool> has_order_;  // true if a group determines the order of the value or of its copy for a transfer
  std::vector<ValueId> transfer_operands_;       // windows and stored values that a transfer reads
  std::map<ValueId, OrderGroup> groups_;         // by the forest's roots
  std::map<std::string, double> known_seconds_;  // seconds by call
};

}  // namespace

DimensionOrders layout(const Graph& graph, const KernelCatalog& catalog, const CostTable& costs) {
  return OrderChooser(graph, catalog, costs).run();
}

std::string orders_text(const Graph& graph, const DimensionOrders& orders) {
  std::string text;
  for (ValueId v : orders.ids())
    if (!orders[v].empty())
      text += cat("%", v, " ", graph.node(graph.value(v).producer).op->name, " ", graph.type(v), ": ",
                  join(orders[v], " "), "\n");
  return text.empty() ? "all row-major\n" : text;
}

}  // namespace karez::passes
