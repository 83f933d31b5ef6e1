// localise: converts every node on every own device to calls, windows on existing bytes, or collectives.
#include "karez/passes/lowering/localise.h"

#include <algorithm>
#include <limits>
#include <map>

#include "karez/base/attr_cast.h"
#include "karez/base/text.h"
#include "karez/ops/local_views.h"
#include "karez/passes/lowering/call.h"
#include "karez/passes/lowering/layout.h"
#include "karez/passes/lowering/stride_choice.h"
#include "karez/passes/node_traits.h"
#include "karez/passes/rewrite.h"
#include "karez/passes/sharding/device_cost.h"
#include "karez/sbp/transition.h"

namespace karez::passes {

std::string_view name_of(StreamKind kind) {
  constexpr std::string_view names[] = {"host", "compute", "comm"};
  return names[static_cast<int>(kind)];
}

std::vector<DeviceName> own_devices(const Graph& graph, int rank) {
  std::vector<DeviceName> own;
  for (const Mesh& mesh : graph.meshes)
    for (DeviceName device : mesh.devices)
      if (device.rank == rank && std::find(own.begin(), own.end(), device) == own.end()) own.push_back(device);
  return own;
}

int position_on(const Mesh& mesh, DeviceName device) {
  auto at = std::find(mesh.devices.begin(), mesh.devices.end(), device);
  return at == mesh.devices.end() ? -1 : static_cast<int>(at - mesh.devices.begin());
}

namespace {

// The identity element of a reduction. For integer types it is an integer, since no double equals the largest i64.
Attr identity_of(Reduce reduce, DType dtype) {
  return with_type(dtype, [&]<class T>() -> Attr {
    using Limits = std::numeric_limits<T>;
    const bool max = reduce == Reduce::max;
    if constexpr (Limits::is_integer) {
      if (reduce == Reduce::sum) return std::int64_t{0};
      return static_cast<std::int64_t>(max ? Limits::lowest() : Limits::max());
    } else {
      if (reduce == Reduce::sum) return 0.0;
      constexpr double infinity = std::numeric_limits<double>::infinity();  // every float type has it
      return max ? -infinity : infinity;
    }
  });
}

Reduce reduce_from(const std::string& sbp) {
  for (Reduce r : {Reduce::sum, Reduce::max, Reduce::min})
    if (sbp == print(P(r))) return r;
  fail("box: '", sbp, "' is not a Partial");
}

class Localiser {
 public:
  Localiser(const Graph& graph, const Streams& stream, const Segmentation& segmentation, const DimensionOrders& orders,
            const KernelCatalog& catalog, const CompileOptions& options)
      : graph_(graph),
        segmentation_(segmentation),
        orders_(orders),
        catalog_(catalog),
        options_(options),
        own_(own_devices(graph, options.rank)),
        uses_(uses_of(graph)) {
    require(!own_.empty(), "localise: no mesh of the graph has a device of rank ", options.rank);
    table_.assign(own_.size(), ById<ValueId, LocalId>(graph_.values.size()));
    overwrites_.assign(graph_.values.size(), -1);
    for (std::size_t v = 0; v < graph_.variables.size(); ++v)
      variable_named_[graph_.variables[v].name] = static_cast<int>(v);
    const std::vector<bool> in_place = updates_in_place(graph_);
    for (std::size_t v = 0; v < graph_.variables.size(); ++v)
      if (in_place[v]) overwrites_[graph_.variables[v].updated] = static_cast<int>(v);
    feeds_comm_.assign(graph_.values.size(), false);
    fetched_.assign(graph_.values.size(), false);
    for (const Output& output : graph_.outputs) fetched_[output.value] = true;
    for (NodeId n : graph_.nodes.ids())
      if (stream[n] == StreamKind::comm) feeds_comm_[graph_.nodes[n].inputs[0]] = true;
  }

  LocalProgram run() {
    for (SegmentId s : segmentation_.segments.ids()) {
      const Segment& segment = segmentation_.segments[s];
      if (segment.stream == StreamKind::host) {
        input(s, segment.nodes[0]);
        continue;
      }
      for (std::size_t d = 0; d < own_.size(); ++d) {
        device_ = static_cast<int>(d);
        if (std::none_of(segment.nodes.begin(), segment.nodes.end(), [&](NodeId node) { return takes_part(node); }))
          continue;
        made_.segments.emplace_back(s, device_);
        copied_.clear();
        for (NodeId node : segment.nodes) {
          if (!takes_part(node)) continue;
          this->node(node);
          for (ValueId out : graph_.node(node).outputs)
            if (feeds_comm_[out] && is_local(out)) make_stored(out);
        }
      }
    }
    for (const Output& output : graph_.outputs) fetch(output);
    return std::move(made_);
  }

 private:
  LocalSegment& here() { return made_.segments.back(); }
  LocalValue& local(LocalId id) { return made_.values[id]; }
  LocalId at(ValueId value) const { return table_[static_cast<std::size_t>(device_)][value]; }
  // The position of the current device in the value's mesh.
  int position(ValueId value) const { return position_on(graph_.mesh(value), own_[static_cast<std::size_t>(device_)]); }
  bool is_local(ValueId value) const { return position(value) >= 0; }
  bool takes_part(NodeId id) const {  // in a transfer, senders and receivers do
    const Node& node = graph_.node(id);
    return is_local(node.outputs[0]) || (node.op->role == Role::transfer && is_local(node.inputs[0]));
  }
  Box box_of(ValueId value) const {
    return local_box(graph_.type(value).shape, graph_.mesh(value), *graph_.value(value).layout, position(value));
  }

  LocalId add(LocalValue value) {
    LocalId id = made_.values.add(std::move(value));
    if (!local(id).root.valid()) local(id).root = id;
    return id;
  }
  void define(ValueId value, LocalId index) { table_[static_cast<std::size_t>(device_)][value] = index; }

  // The view of a value that is produced on this device: dense, in its own order.
  View made_view(ValueId value, const Shape& shape) const {
    const Ints& order = orders_[value];
    return order.empty() ? View(graph_.type(value).dtype, shape) : laid_out(graph_.type(value).dtype, shape, order);
  }

  LocalValue new_value(ValueId value, View view, Box box) {
    return {value, device_, std::move(box), std::move(view), {}, 0, here().segment, -1, false};
  }

  LocalId window(ValueId value, LocalId of, View view, std::int64_t offset, Box box) {
    LocalValue out = local(of);
    out.value = value;
    out.device = device_;
    out.view = std::move(view);
    out.offset += offset;
    out.box = std::move(box);
    return add(std::move(out));
  }

  // Every own device outputs its part; values that only other ranks have are output there.
  void fetch(const Output& output) {
    for (device_ = 0; static_cast<std::size_t>(device_) < own_.size(); ++device_)
      if (is_local(output.value)) made_.outputs.push_back({output.name, device_, at(output.value)});
  }

  // An array that is already on the mesh: each device reads its own part.
  void array_input(SegmentId segment, ValueId value) {
    for (device_ = 0; static_cast<std::size_t>(device_) < own_.size(); ++device_) {
      if (!is_local(value)) continue;
      Box box = box_of(value);
      View view(graph_.type(value).dtype, shape_of(box));
      LocalId part = add({value, device_, std::move(box), std::move(view), {}, 0, segment, -1, false});
      made_.segments.emplace_back(segment, device_);
      here().writes = {part};
      define(value, part);
    }
  }

  // A batch input: registers on the rank's host, with windows for its devices. The strides of windows may not depend on
  // the other parts that the rank has, since kernels are chosen by strides: parts along the batch share one register,
  // and parts along other dimensions have a register each.
  void input(SegmentId segment, NodeId node) {
    ValueId value = graph_.node(node).outputs[0];
    if (graph_.node(node).attrs.flag("array", false)) return array_input(segment, value);
    std::map<std::string, LocalId> parts;  // by box as text
    for (device_ = 0; static_cast<std::size_t>(device_) < own_.size(); ++device_) {
      if (!is_local(value)) continue;
      Box box = read_of_batch(value);
      const Box held = held_of_batch(value);
      auto [at, fresh] = parts.try_emplace(join(held, ",", [](const Range& r) { return cat(r.begin, ":", r.end); }));
      if (fresh) {
        at->second = add({value, -1, held, View(graph_.type(value).dtype, shape_of(held)), {}, 0, segment, -1, false});
        made_.segments.emplace_back(segment, -1);
        here().writes = {at->second};
      }
      std::int64_t offset = 0;
      View view = slice_view(local(at->second).view, held, box, offset);
      define(value, window(value, at->second, std::move(view), offset, std::move(box)));
    }
  }

  // The box that the current device reads: if all readers are slices, only the rows that they use.
  Box read_of_batch(ValueId value) const {
    Box box = box_of(value);
    if (box.empty() || uses_[value].empty() || fetched_[value]) return box;
    std::optional<Range> rows;
    for (const Use& use : uses_[value]) {
      const Node& node = graph_.node(use.node);
      if (node.op->role != Role::transition || move_from(node.attrs.text("move")) != Move::slice) return box;
      const Range part = box_of(node.outputs[0])[0];
      rows = !rows ? part : Range{std::min(rows->begin, part.begin), std::max(rows->end, part.end)};
    }
    box[0] = *rows;
    return box;
  }

  // The current device's box, with the rows from the first to the last that own devices read.
  Box held_of_batch(ValueId value) {
    const int device = device_;
    Box held = read_of_batch(value);
    for (device_ = 0; static_cast<std::size_t>(device_) < own_.size(); ++device_) {
      if (!is_local(value) || held.empty()) continue;
      const Range rows = read_of_batch(value)[0];
      held[0] = {std::min(held[0].begin, rows.begin), std::max(held[0].end, rows.end)};
    }
    device_ = device;
    return held;
  }

  // A splat: one element, filled when the plan is loaded, and a window with strides 0 on it.
  LocalId splat(ValueId value, DType dtype, const Attr& number, const Box& box) {
    auto key = std::make_tuple(device_, dtype, Attrs().set("value", number).print());
    auto found = splats_.find(key);
    if (found == splats_.end()) {
      LocalValue one = new_value({}, View(dtype, {}), {});
      one.constant = true;
      one.segment = {};
      LocalId index = add(std::move(one));
      LocalCall call;
      call.spec.op = "constant";
      call.spec.attrs.set("value", number);
      call.spec.out = {local(index).view};
      call.out = {index};
      choose_plain(call);
      made_.setup.push_back(std::move(call));
      found = splats_.emplace(key, index).first;
    }
    Shape shape = shape_of(box);
    return window(value, found->second, View(dtype, shape, Strides(shape.size(), 0)), 0, box);
  }

  void choose_plain(LocalCall& call) {
    auto choice = catalog_.find(call.spec);
    require(ErrorKind::device, choice.has_value(), "no kernel supports ", print(call.spec),
            "; kernels of this op: ", catalog_.list(call.spec.op));
    call.kernel = choice->kernel;
    call.workspace = choice->workspace;
  }

  LocalId copy_to(LocalId from, const View& view) {
    auto key = std::make_pair(from, print(view));
    auto found = copied_.find(key);
    if (found != copied_.end()) return found->second;
    LocalId to = add(new_value({}, view, local(from).box));
    LocalCall call;
    call.spec.op = "copy";
    call.spec.in = {local(from).view};
    call.spec.out = {view};
    call.in = {from};
    call.out = {to};
    call.node = node_;
    choose_plain(call);
    here().calls.push_back(std::move(call));
    ++made_.copies;
    copied_.emplace(key, to);
    return to;
  }

  // A collective's operand must have the order that all members use.
  void make_stored(ValueId value) {
    const View& view = local(at(value)).view;
    View stored = made_view(value, view.shape);
    if (same_order(view.shape, view.strides, stored.strides)) return;
    LocalId copy = copy_to(at(value), stored);
    local(copy).value = value;  // from here on the copy represents the value on this device, with the value's slots
    define(value, copy);
  }

  // Chooses the kernel; if one with other input strides is cheaper, even with copies, the copies are inserted before.
  void emit_call(LocalCall call, const Cost& work) {
    auto choice = choose_strides(catalog_, options_.costs, call.spec, work);
    require(ErrorKind::device, choice.has_value(), "no kernel supports ", print(call.spec), " of ",
            describe(graph_, node_), "; kernels of this op: ", catalog_.list(call.spec.op));
    for (std::size_t i = 0; i < call.in.size(); ++i)
      if (choice->copied[i]) call.in[i] = copy_to(call.in[i], choice->call.in[i]);
    call.spec = std::move(choice->call);
    call.kernel = choice->choice.kernel;
    call.workspace = choice->choice.workspace;
    here().calls.push_back(std::move(call));
  }

  int team_of(const Cost& work) const {
    if (options_.team == 1) return 1;
    double seconds = options_.costs.seconds(work);
    constexpr double worth = 1.5e-5;  // seconds; below this, waking a second thread costs more than it saves
    return seconds >= worth ? options_.team : 1;
  }

  void box_node(NodeId id) {
    const Node& node = graph_.node(id);
    ValueId in = node.inputs[0], out = node.outputs[0];
    Move move = move_from(node.attrs.text("move"));
    LocalId source = at(in);
    Box box = box_of(out);
    if (move == Move::slice) {
      std::int64_t offset = 0;
      View view = slice_view(local(source).view, local(source).box, box, offset);
      define(out, window(out, source, std::move(view), offset, std::move(box)));
      return;
    }
    if (move == Move::to_partial) {
      to_partial(id, source, std::move(box));
      return;
    }
    here().collective = id;
    here().reads = {source};
    Shape shape = shape_of(box);
    LocalId result = add(new_value(out, made_view(out, shape), std::move(box)));
    here().writes = {result};
    define(out, result);
  }

  void transfer(NodeId id) {
    const Node& node = graph_.node(id);
    ValueId in = node.inputs[0], out = node.outputs[0];
    here().collective = id;
    if (is_local(in)) here().reads = {at(in)};
    if (!is_local(out)) return;
    Box box = box_of(out);
    Shape shape = shape_of(box);
    LocalId result = add(new_value(out, made_view(out, shape), std::move(box)));
    here().writes = {result};
    define(out, result);
  }

  void to_partial(NodeId id, LocalId source, Box box) {
    const Node& node = graph_.node(id);
    ValueId out = node.outputs[0];
    DType dtype = graph_.type(out).dtype;
    Reduce reduce = reduce_from(node.attrs.text("to"));
    bool whole_here = node.attrs.text("from") == "B";
    int coordinate = graph_.mesh(out).coordinates(position(out))[static_cast<std::size_t>(node.attrs.integer("axis"))];
    if (whole_here && (coordinate == 0 || reduce != Reduce::sum)) {  // the max of equal values is the value itself
      define(out, window(out, source, local(source).view, 0, std::move(box)));
      return;
    }
    Attr identity = identity_of(reduce, dtype);
    if (whole_here) {
      define(out, splat(out, dtype, identity, box));
      return;
    }
    Ints low, high;
    const Box& part = local(source).box;
    for (std::size_t d = 0; d < box.size(); ++d) {
      low.push_back(part[d].begin - box[d].begin);
      high.push_back(box[d].end - part[d].end);
    }
    LocalId result = add(new_value(out, made_view(out, shape_of(box)), box));
    LocalCall call;
    call.spec.op = "pad";
    call.spec.attrs.set("low", low).set("high", high).set("value", identity);
    call.spec.in = {local(source).view};
    call.spec.out = {local(result).view};
    call.in = {source};
    call.out = {result};
    call.node = id;
    Cost work = copy_work(call.spec.out[0]);
    emit_call(std::move(call), work);
    define(out, result);
  }

  // Defines the result as a window, on a row-major copy of the operand if strides cannot express it.
  bool windowed(const NodeView& view, const Attrs& attrs) {
    const OpDef& op = *view.node().op;
    if (op.role != Role::window) return false;
    ValueId out = view.out(0);
    LocalId source = at(view.in(0));
    Box box = box_of(out);
    Shape shape = shape_of(box);
    auto seen = op.window(local(source).view, shape, attrs);
    if (!seen) {
      source = copy_to(source, View(local(source).view.type()));
      seen = op.window(local(source).view, shape, attrs);
      require(seen.has_value(), "localise: ", describe(graph_, view.id), " cannot view ", local(source).view, " as ",
              shape);
    }
    define(out, window(out, source, std::move(seen->view), seen->offset, std::move(box)));
    return true;
  }

  bool constant(const NodeView& view, const Attrs& attrs) {
    if (view.node().op->role != Role::constant) return false;
    ValueId out = view.out(0);
    const TensorType& type = view.out_type(0);
    Box box = box_of(out);
    if (attrs.has("value")) {
      define(out, splat(out, type.dtype, attr_at(attrs, "value"), box));
      return true;
    }
    LocalValue value = new_value(out, made_view(out, shape_of(box)), box);
    value.constant = true;
    value.segment = {};
    LocalId index = add(std::move(value));
    LocalCall call;
    call.spec = call_of(view, {}, {local(index).view}, attrs);
    call.out = {index};
    call.node = view.id;
    choose_plain(call);
    made_.setup.push_back(std::move(call));
    define(out, index);
    return true;
  }

  void node(NodeId id) {
    node_ = id;
    NodeView view{&graph_, id};
    const Node& node = view.node();
    if (node.op->role == Role::transition) return box_node(id);
    if (node.op->role == Role::transfer) return transfer(id);
    if (node.op->role == Role::state) {
      ValueId out = view.out(0);
      Box box = box_of(out);
      LocalValue value = new_value(out, stored_view(view.out_type(0).dtype, shape_of(box)), box);
      value.segment = {};
      const std::string& name = node.attrs.text("name");
      const auto named = variable_named_.find(name);
      require(named != variable_named_.end(), "localise: no variable is called '", name, "'");
      value.variable = named->second;
      const int variable = value.variable;
      define(out, variables_[{device_, variable}] = add(std::move(value)));
      return;
    }
    LocalView local_view{view, {}, {}};
    for (ValueId in : node.inputs) local_view.in.push_back(local(at(in)).box);
    for (ValueId out : node.outputs) local_view.out.push_back(box_of(out));
    if (node.op->role == Role::accumulate || node.op->role == Role::micro_join || node.op->role == Role::micro_slice)
      return between_acts(view, local_view);
    Attrs attrs = graph::localise(local_view);
    if (constant(view, attrs) || windowed(view, attrs)) {
      require(node.act_attrs.empty(), "localise: ", describe(graph_, id),
              " calls no kernel, so its attributes cannot differ by act");
      return;
    }

    LocalCall call;
    call.node = id;
    std::vector<View> in, out;
    for (ValueId value : node.inputs) {
      call.in.push_back(at(value));
      in.push_back(local(at(value)).view);
    }
    for (ValueId value : node.outputs) {
      Box box = box_of(value);
      int over = overwrites_[value];
      LocalId index;
      if (over >= 0) {
        const LocalId old = variables_.at({device_, over});  // the variable itself, not its copy for collectives
        index = window(value, old, local(old).view, 0, std::move(box));
      } else {
        View made = made_view(value, shape_of(box));
        index = add(new_value(value, std::move(made), std::move(box)));
      }
      define(value, index);
      call.out.push_back(index);
      out.push_back(local(index).view);
    }
    call.spec = call_of(view, in, out, attrs);
    if (node.op->role == Role::store) call.in.erase(call.in.begin());
    Cost work = device_work(graph_, id);
    call.spec.team = team_of(work);
    if (node.act_attrs.empty()) return emit_call(std::move(call), work);
    for (int act = 0; act < node.acts; ++act) {
      const Attrs here = attrs_at(node, act);
      local_view.node.resolved_attrs = &here;
      LocalCall one = call;
      one.spec = call_of(view, in, out, graph::localise(local_view));
      one.spec.team = call.spec.team;
      one.acts = {act, act + 1};
      emit_call(std::move(one), work);
    }
  }

  // Nodes that join the results of acts, or split a whole value: each act copies to or from another offset; a sum
  // begins with a copy.
  void between_acts(const NodeView& view, const LocalView& local_view) {
    const Node& node = view.node();
    const LocalId from = at(view.in(0));
    const Box& box = local_view.out[0];
    const LocalId whole = add(new_value(view.out(0), made_view(view.out(0), shape_of(box)), box));
    define(view.out(0), whole);
    auto emit = [&](const char* op, Attrs attrs, std::vector<LocalId> in, LocalId out, plan::ActRange acts) {
      LocalCall call;
      call.spec.op = op;
      call.spec.attrs = std::move(attrs);
      for (LocalId v : in) call.spec.in.push_back(local(v).view);
      call.spec.out = {local(out).view};
      call.in = std::move(in);
      call.out = {out};
      call.node = view.id;
      call.acts = acts;
      const Cost work = copy_work(call.spec.out[0]);
      call.spec.team = team_of(work);
      emit_call(std::move(call), work);
    };
    const plan::ActRange first{0, node.acts > 1 ? 1 : 0};
    if (node.op->role == Role::accumulate) {
      emit("copy", {}, {from}, whole, first);
      if (node.acts > 1) emit("pointwise", Attrs().set("expr", "x + y"), {whole, from}, whole, {1, node.acts});
      return;
    }
    const auto axis = static_cast<std::size_t>(node.attrs.integer("axis"));
    const bool joins = node.op->role == Role::micro_join;
    const LocalId large = joins ? whole : from, small = joins ? from : whole;
    const std::int64_t size = local(small).view.shape[axis];
    for (int act = 0; act < node.acts; ++act) {
      Box part = local(large).box;
      part[axis] = {local(large).box[axis].begin + act * size, local(large).box[axis].begin + (act + 1) * size};
      std::int64_t offset = 0;
      View seen = slice_view(local(large).view, local(large).box, part, offset);
      const LocalId here = window(joins ? view.out(0) : view.in(0), large, std::move(seen), offset, std::move(part));
      emit("copy", {}, {joins ? small : here}, joins ? here : small,
           node.acts > 1 ? plan::ActRange{act, act + 1} : first);
    }
  }

  const Graph& graph_;
  const Segmentation& segmentation_;
  const DimensionOrders& orders_;
  const KernelCatalog& catalog_;
  const CompileOptions& options_;
  std::vector<DeviceName> own_;
  LocalProgram made_;
  int device_ = 0;
  NodeId node_;
  ById<ValueId, std::vector<Use>> uses_;
  ById<ValueId, bool> feeds_comm_, fetched_;
  ById<ValueId, int> overwrites_;              // the variable whose bytes the value overwrites, or -1
  std::vector<ById<ValueId, LocalId>> table_;  // by own device
  std::map<std::string, int, std::less<>> variable_named_;
  std::map<std::pair<int, int>, LocalId> variables_;  // by own device and variable: its bytes at the start of a launch
  std::map<std::tuple<int, DType, std::string>, LocalId> splats_;
  std::map<std::pair<LocalId, std::string>, LocalId> copied_;  // within one local segment
};

}  // namespace

LocalProgram localise(const Graph& graph, const Streams& stream, const Segmentation& segmentation,
                      const DimensionOrders& orders, const KernelCatalog& catalog, const CompileOptions& options) {
  return Localiser(graph, stream, segmentation, orders, catalog, options).run();
}

}  // namespace karez::passes
