// layout: regions of values that share an order, the orders their calls ask for, and the cheapest choice among them.
#include "passes/layout.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "ops/local_views.h"
#include "passes/call.h"
#include "passes/order.h"
#include "passes/price.h"
#include "passes/settle.h"
#include "sbp/transition.h"
#include "solve/min_sum.h"

namespace karez::passes {
namespace {

// Dimensions from the outermost in memory; those of size one stay where the logical order has them.
Ints order_of(const View& view) {
  Ints order(view.shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return view.strides[static_cast<std::size_t>(a)] > view.strides[static_cast<std::size_t>(b)];
  });
  return order;
}

// Values that lie alike: all results of a chain of pointwise calls, both ends of a transfer.
struct Region {
  std::vector<Ints> orders;  // to choose from; the first is row-major
  std::size_t chosen = 0;
  int variable = -1;  // of the factor graph, where there is a choice
};

class Chooser {
 public:
  explicit Chooser(const Compilation& c) : c_(c), graph_(c.graph) {
    kind_.assign(graph_.values.size(), Kind::free);
    parent_.resize(graph_.values.size());
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  std::vector<Ints> run() {
    classify();
    join_regions();
    gather_orders();
    solve();
    std::vector<Ints> out(graph_.values.size());
    for (std::size_t v = 0; v < out.size(); ++v) {
      const Region* region = region_at(ValueId(v));
      if (region != nullptr && region->chosen > 0) out[v] = region->orders[region->chosen];
    }
    return out;
  }

 private:
  enum class Kind : std::uint8_t {
    free,       // a call's result: its order is ours to choose
    window,     // bytes of another value, seen through other strides
    repeated,   // one number seen everywhere
    row_major,  // filled by the host
    stored,     // a variable's bytes, now or updated in place
  };
  static std::size_t at(ValueId value) { return static_cast<std::size_t>(value.index); }
  Kind kind(ValueId value) const { return kind_[at(value)]; }
  const Node& producer(ValueId value) const { return graph_.node(graph_.value(value).producer); }

  void classify() {
    for (const Node& node : graph_.nodes) {
      const std::string& op = node.op->name;
      Kind all = Kind::free;
      if (op == "input") all = Kind::row_major;
      if (op == "variable") all = Kind::stored;
      if (op == "constant" && node.attrs.has("value")) all = Kind::repeated;
      if (op == "reshape" || op == "broadcast" || op == "transpose" || op == "slice") all = Kind::window;
      if (op == "box" && move_from(node.attrs.text("move")) == Move::slice) all = Kind::window;
      for (ValueId out : node.outputs) kind_[at(out)] = all;
    }
    for (const Variable& variable : graph_.variables)
      if (updates_in_place(graph_, variable)) kind_[at(variable.updated)] = Kind::stored;
  }

  int find(int v) {
    while (parent_[static_cast<std::size_t>(v)] != v)
      v = parent_[static_cast<std::size_t>(v)] = parent_[static_cast<std::size_t>(parent_[static_cast<std::size_t>(v)])];
    return v;
  }
  void join(ValueId a, ValueId b) {
    int x = find(a.index), y = find(b.index);
    parent_[static_cast<std::size_t>(std::max(x, y))] = std::min(x, y);
  }

  bool is_pointwise(const Node& node) const { return !node.op->expr.empty() || node.op->name == "pointwise" || node.op->name == "cast"; }

  void join_regions() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (node.op->name == "box" && kind(node.outputs[0]) == Kind::free) {
        // What a transfer takes lies as what it gives: where the source does not, it is copied first.
        if (kind(node.inputs[0]) != Kind::free) laid_for_transfer_.push_back(node.inputs[0]);
        join(node.inputs[0], node.outputs[0]);
      }
      if (is_pointwise(node) && kind(node.outputs[0]) == Kind::free)
        for (ValueId in : node.inputs)
          if (kind(in) == Kind::free) join(in, node.outputs[0]);
    }
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      if (find(static_cast<int>(v)) != static_cast<int>(v)) continue;
      Ints row_major(graph_.values[v].type.shape.size());
      std::iota(row_major.begin(), row_major.end(), 0);
      regions_[static_cast<int>(v)].orders = {row_major};
    }
    is_laid_.assign(graph_.values.size(), false);
    for (ValueId value : laid_for_transfer_) is_laid_[at(value)] = true;
    for (std::size_t v = 0; v < graph_.values.size(); ++v)
      if (kind_[v] == Kind::free) is_laid_[v] = true;
  }
  Region& region(ValueId value) { return regions_.at(find(value.index)); }
  const Region* region_at(ValueId value) { return is_laid_[at(value)] ? &region(value) : nullptr; }

  Shape local_shape(ValueId value) const { return shape_of(local_box(graph_.type(value).shape, graph_.mesh(value), *graph_.value(value).layout, 0)); }

  // How a value is seen on the first device under the regions' present choices; `copied` counts the seconds of copies that a reshape needs.
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
    const std::string& op = node.op->name;
    if (op == "broadcast") return broadcast_view(source, type.shape, node.attrs.ints("dims"));
    if (op == "transpose") return transpose_view(source, node.attrs.ints("perm"));
    if (op == "reshape") {
      auto strides = reshape_strides(source, type.shape);
      return strides ? View(type.dtype, type.shape, *strides) : View(type);
    }
    return View(type.dtype, type.shape, source.strides);  // slices
  }

  // The free values whose choice decides how `value` is seen.
  void roots_of(ValueId value, std::vector<int>& roots) {
    while (kind(value) == Kind::window) value = producer(value).inputs[0];
    if (kind(value) == Kind::free) roots.push_back(find(value.index));
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

  bool is_call(const Node& node) const {
    const std::string& op = node.op->name;
    return kind(node.outputs[0]) != Kind::window && op != "input" && op != "variable" && op != "constant" && op != "iota" && op != "box";
  }

  // One node as the call that localise makes of it on the first device.
  CallSpec call_at(NodeId id) {
    NodeView view{&graph_, id};
    LocalView local{view, {}, {}};
    std::vector<View> in, out;
    auto box = [&](ValueId v) { return local_box(graph_.type(v).shape, graph_.mesh(v), *graph_.value(v).layout, 0); };
    for (ValueId v : view.node().inputs) local.in.push_back(box(v)), in.push_back(view_of(v));
    for (ValueId v : view.node().outputs) local.out.push_back(box(v)), out.push_back(view_of(v));
    return call_of(view, std::move(in), std::move(out), localise(local));
  }

  // Orders that somebody asks for: kernels, stored operands of the same shape, reshapes behind transposes, pointwise calls on windows.
  void gather_orders() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (node.op->name == "reshape") ask_for_reshape(node);
      if (!is_call(node)) continue;
      if (is_pointwise(node)) {
        if (kind(node.outputs[0]) == Kind::free) ask_like_windows(node);
        continue;
      }
      CallSpec call = call_at(NodeId(n));
      auto wanted = c_.catalog->suggest(call);
      auto ask = [&](ValueId value, const View& as) {
        if (kind(value) == Kind::free && !repeats(as)) offer(value, order_of(as));
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

  // reshape(transpose(x)) is a window if x lies so that its transpose is row-major.
  void ask_for_reshape(const Node& node) {
    ValueId value = node.inputs[0];
    Ints order(graph_.type(value).shape.size());
    std::iota(order.begin(), order.end(), 0);
    for (; kind(value) == Kind::window && producer(value).op->name == "transpose"; value = producer(value).inputs[0])
      for (std::int64_t& d : order) d = producer(value).attrs.ints("perm")[static_cast<std::size_t>(d)];
    if (kind(value) == Kind::free) offer(value, order);
  }

  void ask_like_windows(const Node& node) {
    for (ValueId in : node.inputs) {
      if (kind(in) != Kind::window) continue;
      View seen = view_of(in);
      if (!repeats(seen)) offer(node.outputs[0], order_of(seen));
    }
  }

  double settled_seconds(const CallSpec& call, const Cost& work) {
    auto [at, fresh] = known_.try_emplace(print(call), 0.0);
    if (!fresh) return at->second;
    auto settled = settle(*c_.catalog, c_.options.costs, call, work);
    constexpr double missing = 1.0;  // seconds: localise will say which kernel there is none of, if nothing else is left
    at->second = settled ? settled->seconds : missing;
    return at->second;
  }

  double copy_seconds(const View& from, const View& to) {
    return same_order(from.shape, from.strides, to.strides) ? 0 : settled_seconds(copy_call(from, to), copy_work(from));
  }

  // A cost for each joint choice of the regions in `roots`, by trying them all.
  template <class Seconds> void add_factor(solve::MinSumProblem& problem, std::vector<int> roots, Seconds&& seconds) {
    std::sort(roots.begin(), roots.end());
    roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
    std::erase_if(roots, [&](int r) { return regions_.at(r).variable < 0; });
    if (roots.empty()) return;
    solve::Factor factor;
    for (int r : roots) factor.scope.push_back(regions_.at(r).variable);
    while (true) {
      factor.cost.push_back(seconds());
      std::size_t k = roots.size();
      while (k > 0) {  // the last varies fastest
        Region& r = regions_.at(roots[k - 1]);
        if (++r.chosen < r.orders.size()) break;
        r.chosen = 0;
        --k;
      }
      if (k == 0) break;
    }
    problem.factors.push_back(std::move(factor));
  }

  void solve() {
    solve::MinSumProblem problem;
    std::vector<int> of;  // by variable: its region
    for (auto& [root, region] : regions_) {
      if (region.orders.size() < 2) continue;
      region.variable = static_cast<int>(of.size());
      of.push_back(root);
      problem.domain.push_back(static_cast<int>(region.orders.size()));
      solve::Factor first{{region.variable}, {}};  // of equals the first: row-major
      constexpr double nothing = 1e-12;
      for (std::size_t i = 0; i < region.orders.size(); ++i) first.cost.push_back(nothing * static_cast<double>(i));
      problem.factors.push_back(std::move(first));
    }
    if (of.empty()) return;
    std::map<int, std::vector<std::pair<ValueId, Shape>>> reshaped;  // by source: who sees it in another shape
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      std::vector<int> roots;
      for (ValueId in : node.inputs) roots_of(in, roots);
      if (node.op->name == "reshape") reshaped[node.inputs[0].index].emplace_back(node.inputs[0], local_shape(node.outputs[0]));
      if (!is_call(node)) continue;
      for (ValueId out : node.outputs) roots_of(out, roots);
      NodeView view{&graph_, NodeId(n)};
      Cost work = device_work(graph_, view.id);
      add_factor(problem, roots, [&] { return settled_seconds(call_at(NodeId(n)), work); });
    }
    for (const auto& [source, users] : reshaped) {  // all take the same copy
      std::vector<int> roots;
      roots_of(users[0].first, roots);
      add_factor(problem, roots, [&, &users = users] {
        View from = view_of(users[0].first);
        for (const auto& user : users)
          if (!reshape_strides(from, user.second)) return copy_seconds(from, View(from.type()));
        return 0.0;
      });
    }
    for (ValueId value : laid_for_transfer_) {
      std::vector<int> roots{find(value.index)};
      roots_of(value, roots);
      add_factor(problem, roots, [&] {
        View from = view_of(value);
        return copy_seconds(from, laid_out(from.dtype, from.shape, region(value).orders[region(value).chosen]));
      });
    }
    solve::MinSumResult best = solve::min_sum(problem);
    require(best.feasible, "layout: no choice of strides was found: ", best.method);
    for (std::size_t v = 0; v < of.size(); ++v) regions_.at(of[v]).chosen = static_cast<std::size_t>(best.choice[v]);
  }

  const Compilation& c_;
  const Graph& graph_;
  std::vector<Kind> kind_;                  // by value
  std::vector<int> parent_;                 // by value: of the forest of regions
  std::vector<bool> is_laid_;               // by value: whether its region says how it, or its copy for a transfer, lies
  std::vector<ValueId> laid_for_transfer_;  // windows and stored values that a transfer takes
  std::map<int, Region> regions_;           // by the forest's roots
  std::map<std::string, double> known_;     // seconds by call
};

}  // namespace

std::vector<Ints> memory_orders(const Compilation& c) { return Chooser(c).run(); }

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
