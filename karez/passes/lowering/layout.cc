// layout: finds regions of values that share an order and the orders that their calls prefer, and chooses the cheapest.
#include "karez/passes/lowering/layout.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "karez/base/text.h"
#include "karez/ops/local_views.h"
#include "karez/passes/lowering/call.h"
#include "karez/passes/lowering/stride_choice.h"
#include "karez/passes/node_traits.h"
#include "karez/passes/scheduling/order.h"
#include "karez/passes/sharding/device_cost.h"
#include "karez/sbp/transition.h"
#include "karez/solve/min_sum.h"

namespace karez::passes {
namespace {

// Dimensions, outermost in memory first; of equal strides, in logical order.
Ints order_of(const View& view) {
  Ints order(view.shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return view.strides[static_cast<std::size_t>(a)] > view.strides[static_cast<std::size_t>(b)];
  });
  return order;
}

// Values with the same order: all results of a chain of pointwise calls, operand and result of a transfer.
struct Region {
  std::vector<Ints> orders;  // candidates; the first is row-major
  std::size_t chosen = 0;
  int variable = -1;  // of the factor graph; -1 for a single candidate
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
    join_regions();
    gather_orders();
    solve();
    DimensionOrders out(graph_.values.size());
    for (ValueId v : out.ids()) {
      const Region* region = region_at(v);
      if (region != nullptr && region->chosen > 0) out[v] = region->orders[region->chosen];
    }
    return out;
  }

 private:
  enum class Kind : std::uint8_t {
    free,       // a call's result: its order is chosen here
    window,     // bytes of another value, viewed through other strides
    repeated,   // a splat: all strides are 0
    row_major,  // filled by the host
    stored,     // a variable's bytes, before or after an update in place
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

  void join_regions() {
    for (const Node& node : graph_.nodes) {
      if (crosses_devices(node) || (node.op->role == Role::transition && kind(node.outputs[0]) == Kind::free)) {
        // A transfer's operand has the order of its result; an operand with another order is copied first.
        if (kind(node.inputs[0]) != Kind::free) laid_for_transfer_.push_back(node.inputs[0]);
        join(node.inputs[0], node.outputs[0]);
      }
      const Role role = node.op->role;
      const bool as_it_is =
          node.op->elementwise || role == Role::accumulate || role == Role::micro_join || role == Role::micro_slice;
      if (as_it_is && kind(node.outputs[0]) == Kind::free)
        for (ValueId in : node.inputs)
          if (kind(in) == Kind::free) join(in, node.outputs[0]);
    }
    for (ValueId v : graph_.values.ids()) {
      if (find(v) != v) continue;
      Ints row_major(graph_.type(v).shape.size());
      std::iota(row_major.begin(), row_major.end(), 0);
      regions_[v].orders = {row_major};
    }
    is_laid_.assign(graph_.values.size(), false);
    for (ValueId value : laid_for_transfer_) is_laid_[value] = true;
    for (ValueId v : graph_.values.ids())
      if (kind(v) == Kind::free) is_laid_[v] = true;
  }
  Region& region(ValueId value) { return regions_.at(find(value)); }
  const Region* region_at(ValueId value) { return is_laid_[value] ? &region(value) : nullptr; }

  Shape local_shape(ValueId value) const {
    return shape_of(local_box(graph_.type(value).shape, graph_.mesh(value), *graph_.value(value).layout, 0));
  }

  // The view of a value on the first device under the current choices of the regions.
  View view_of(ValueId value) {
    const TensorType type{graph_.type(value).dtype, local_shape(value)};
    switch (kind(value)) {
      case Kind::repeated: return View(type.dtype, type.shape, Strides(type.shape.size(), 0));
      case Kind::row_major: return View(type);
      case Kind::stored: return stored_view(type.dtype, type.shape);
      case Kind::free: return laid_out(type.dtype, type.shape, region(value).orders[region(value).chosen]);
      case Kind::window: break;
    }
    const Node& node = producer(value);
    View source = view_of(node.inputs[0]);
    if (node.op->role == Role::transition)
      return View(type.dtype, type.shape, source.strides);  // a slice of a whole value
    auto seen = window_at(graph_.value(value).producer, source);
    return seen ? *seen : *window_at(graph_.value(value).producer, View(source.type()));
  }

  // The view of a window's result for this view of its operand; none if strides cannot express it.
  std::optional<View> window_at(NodeId id, const View& source) const {
    const Node& node = graph_.node(id);
    auto seen = node.op->window(source, local_shape(node.outputs[0]), graph::localise(local_at(id)));
    return seen ? std::optional(seen->view) : std::nullopt;
  }

  LocalView local_at(NodeId id) const {
    LocalView local{{&graph_, id}, {}, {}};
    auto box = [&](ValueId v) { return local_box(graph_.type(v).shape, graph_.mesh(v), *graph_.value(v).layout, 0); };
    for (ValueId v : graph_.node(id).inputs) local.in.push_back(box(v));
    for (ValueId v : graph_.node(id).outputs) local.out.push_back(box(v));
    return local;
  }

  // Adds the region of the free value that determines the view of `value`, if there is one.
  void roots_of(ValueId value, std::vector<ValueId>& roots) {
    while (kind(value) == Kind::window) value = producer(value).inputs[0];
    if (kind(value) == Kind::free) roots.push_back(find(value));
  }

  void offer(ValueId value, const Ints& order) {
    Region& r = region(value);
    const Shape shape = local_shape(value);
    constexpr std::size_t most = 6;
    const Strides strides = laid_out(DType::b8, shape, order).strides;
    for (const Ints& known : r.orders)
      if (same_order(shape, laid_out(DType::b8, shape, known).strides, strides)) return;
    if (r.orders.size() < most) r.orders.push_back(order);
  }

  static bool is_call(const Node& node) {
    return node.op->role == Role::compute || node.op->role == Role::update || node.op->role == Role::store;
  }

  // The call that localise creates for the node on the first device.
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
      if (node.op->role == Role::window && !window_at(n, view_of(node.inputs[0]))) ask_for_window(node);
      if (!is_call(node)) continue;
      if (node.op->elementwise) {
        if (kind(node.outputs[0]) == Kind::free) ask_like_operands(node);
        continue;
      }
      CallSpec call = call_at(n);
      auto wanted = catalog_.suggest(call);
      auto ask = [&](ValueId value, const View& as) {
        if (kind(value) == Kind::free && !has_zero_stride(as)) offer(value, order_of(as));
      };
      std::size_t dropped = node.inputs.size() - call.in.size();  // the old version of an assignment
      for (std::size_t i = 0; wanted && i < call.in.size(); ++i) ask(node.inputs[i + dropped], wanted->in[i]);
      for (std::size_t i = 0; wanted && i < call.out.size(); ++i) ask(node.outputs[i], wanted->out[i]);
      for (std::size_t i = 0; i < call.in.size(); ++i) {
        if (kind(node.inputs[i + dropped]) != Kind::stored) continue;
        for (std::size_t k = 0; k < call.in.size(); ++k)
          if (call.in[k].shape == call.in[i].shape) ask(node.inputs[k + dropped], call.in[i]);
      }
    }
  }

  // reshape(transpose(x)) is a window if the order of x makes its transpose row-major. This runs while all values are
  // row-major, so that strides identify the dimensions of the source.
  void ask_for_window(const Node& node) {
    ValueId source = node.inputs[0];
    const View seen = view_of(source);
    while (kind(source) == Kind::window) source = producer(source).inputs[0];
    if (kind(source) != Kind::free) return;
    const View whole = view_of(source);
    if (seen.shape.size() != whole.shape.size()) return;
    Ints order;
    std::vector<bool> taken(whole.shape.size(), false);
    for (std::size_t d = 0; d < seen.shape.size(); ++d)
      for (std::size_t from = 0; from < whole.shape.size(); ++from) {
        if (taken[from] || seen.shape[d] != whole.shape[from] ||
            (seen.shape[d] > 1 && seen.strides[d] != whole.strides[from]))
          continue;
        taken[from] = true;
        order.push_back(static_cast<std::int64_t>(from));
        break;
      }
    if (order.size() == whole.shape.size()) offer(source, order);
  }

  void ask_like_operands(const Node& node) {
    for (ValueId in : node.inputs) {
      if (kind(in) != Kind::window && kind(in) != Kind::stored) continue;
      View seen = view_of(in);
      if (!has_zero_stride(seen)) offer(node.outputs[0], order_of(seen));
    }
  }

  double call_seconds(const CallSpec& call, const Cost& work) {
    auto [at, fresh] = known_.try_emplace(print(call), 0.0);
    if (!fresh) return at->second;
    auto choice = choose_strides(catalog_, costs_, call, work);
    constexpr double missing = 1.0;  // seconds; if no other choice remains, localise reports the missing kernel
    at->second = choice ? choice->seconds : missing;
    return at->second;
  }

  double copy_seconds(const View& from, const View& to) {
    return same_order(from.shape, from.strides, to.strides) ? 0 : call_seconds(copy_call(from, to), copy_work(from));
  }

  // Adds the cost of each joint choice of the regions in `roots`. If there are too many (a concat of many values), it
  // tries each region only together with the first one, with the others row-major, and assumes that each region's
  // additional cost depends only on these two.
  template <class Seconds>
  void add_factor(solve::MinSumProblem& problem, std::vector<ValueId> roots, Seconds&& seconds) {
    std::erase_if(roots, [&](ValueId r) { return regions_.at(r).variable < 0; });
    if (roots.empty()) return;
    const ValueId first = roots[0];
    std::sort(roots.begin(), roots.end());
    roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
    constexpr double most = 1024;
    double joint = 1;
    for (ValueId r : roots) joint *= static_cast<double>(regions_.at(r).orders.size());
    if (joint <= most) {
      problem.factors.push_back(solve::factor(variables_of(roots), costs_of(roots, seconds)));
      return;
    }
    const std::vector<double> alone = costs_of({first}, seconds);
    problem.factors.push_back(solve::factor(variables_of({first}), alone));
    for (ValueId r : roots) {
      if (r == first) continue;
      std::vector<double> more = costs_of({first, r}, seconds);
      for (std::size_t i = 0; i < more.size(); ++i) more[i] -= alone[i / (more.size() / alone.size())];
      problem.factors.push_back(solve::factor(variables_of({first, r}), std::move(more)));
    }
  }
  std::vector<int> variables_of(const std::vector<ValueId>& roots) const {
    std::vector<int> variables;
    for (ValueId r : roots) variables.push_back(regions_.at(r).variable);
    return variables;
  }
  // The costs of the roots' joint choices, of which the last varies fastest. All others are row-major.
  template <class Seconds> std::vector<double> costs_of(const std::vector<ValueId>& roots, Seconds&& seconds) {
    std::vector<double> cost;
    while (true) {
      cost.push_back(seconds());
      std::size_t k = roots.size();
      while (k > 0) {
        Region& r = regions_.at(roots[k - 1]);
        if (++r.chosen < r.orders.size()) break;
        r.chosen = 0;
        --k;
      }
      if (k == 0) return cost;
    }
  }

  void solve() {
    solve::MinSumProblem problem;
    std::vector<ValueId> of;  // by variable: its region
    for (auto& [root, region] : regions_) {
      if (region.orders.size() < 2) continue;
      region.variable = static_cast<int>(of.size());
      of.push_back(root);
      problem.domain.push_back(static_cast<int>(region.orders.size()));
      std::vector<double> first;  // of equal costs, the first order wins: row-major
      constexpr double nothing = 1e-12;
      for (std::size_t i = 0; i < region.orders.size(); ++i) first.push_back(nothing * static_cast<double>(i));
      problem.factors.push_back(solve::factor({region.variable}, std::move(first)));
    }
    if (of.empty()) return;
    std::map<ValueId, std::vector<NodeId>> windows;  // by operand
    for (NodeId n : graph_.nodes.ids()) {
      const Node& node = graph_.nodes[n];
      std::vector<ValueId> roots;  // those of results first
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
        View from = view_of(source);
        for (NodeId user : users)
          if (!window_at(user, from)) return copy_seconds(from, View(from.type()));
        return 0.0;
      });
    }
    for (ValueId value : laid_for_transfer_) {
      std::vector<ValueId> roots{find(value)};
      roots_of(value, roots);
      add_factor(problem, roots, [&] {
        View from = view_of(value);
        return copy_seconds(from, laid_out(from.dtype, from.shape, region(value).orders[region(value).chosen]));
      });
    }
    solve::MinSumResult best = solve::min_sum(problem);
    require(best.feasible, "layout: found no choice of strides: ", best.method);
    for (std::size_t v = 0; v < of.size(); ++v) regions_.at(of[v]).chosen = static_cast<std::size_t>(best.choice[v]);
  }

  const Graph& graph_;
  const KernelCatalog& catalog_;
  const CostTable& costs_;
  ById<ValueId, Kind> kind_;
  ById<ValueId, ValueId> parent_;           // of the forest of regions
  ById<ValueId, bool> is_laid_;             // whether its region determines its order, or that of its transfer copy
  std::vector<ValueId> laid_for_transfer_;  // windows and stored values that a transfer reads
  std::map<ValueId, Region> regions_;       // by the forest's roots
  std::map<std::string, double> known_;     // seconds by call
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

View laid_out(DType dtype, const Shape& shape, const Ints& order) {
  View out(dtype, shape);
  std::int64_t step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    auto d = static_cast<std::size_t>(order[i]);
    out.strides[d] = step;
    step *= std::max<std::int64_t>(shape[d], 1);
  }
  return out;
}

}  // namespace karez::passes
