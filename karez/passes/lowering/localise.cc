// Converts every node on every own device to calls, windows on existing memory, or collectives.
#include "karez/passes/lowering/localise.h"

#include <algorithm>
#include <map>
#include <optional>

#include "karez/base/attr_cast.h"
#include "karez/base/text.h"
#include "karez/ops/local_views.h"
#include "karez/passes/lowering/call.h"
#include "karez/passes/lowering/local_program_builder.h"
#include "karez/passes/lowering/reduction_identity.h"
#include "karez/passes/lowering/stride_choice.h"
#include "karez/passes/node_traits.h"
#include "karez/passes/sharding/device_cost.h"
#include "karez/sbp/transition.h"

namespace karez::passes {
namespace {

Reduce reduce_from(const std::string& sbp) {
  for (Reduce r : {Reduce::sum, Reduce::max, Reduce::min})
    if (sbp == print(P(r))) return r;
  fail("box: '", sbp, "' is not a Partial");
}

class Localiser : private LocalProgramBuilder {
 public:
  Localiser(const Graph& graph, const Streams& stream, const Segmentation& segmentation, const DimensionOrders& orders,
            const KernelCatalog& catalog, const CompileOptions& options)
      : LocalProgramBuilder(graph, orders, catalog, options),
        segmentation_(segmentation),
        uses_(uses_of(graph)),
        feeds_comm_(graph.values.size(), false),
        is_output_(graph.values.size(), false),
        overwritten_variable_(graph.values.size(), -1) {
    for (std::size_t v = 0; v < graph_.variables.size(); ++v)
      variable_by_name_[graph_.variables[v].name] = static_cast<int>(v);
    const std::vector<bool> in_place = updates_in_place(graph_);
    for (std::size_t v = 0; v < graph_.variables.size(); ++v)
      if (in_place[v]) overwritten_variable_[graph_.variables[v].updated] = static_cast<int>(v);
    for (const Output& output : graph_.outputs) is_output_[output.value] = true;
    for (NodeId n : graph_.nodes.ids())
      if (stream[n] == StreamKind::comm) feeds_comm_[graph_.nodes[n].inputs[0]] = true;
  }

  LocalProgram run() {
    for (SegmentId s : segmentation_.segments.ids()) {
      const Segment& segment = segmentation_.segments[s];
      if (segment.stream == StreamKind::host) {
        add_input(s, segment.nodes[0]);
        continue;
      }
      for (std::size_t d = 0; d < own_.size(); ++d) {
        device_ = static_cast<int>(d);
        if (std::none_of(segment.nodes.begin(), segment.nodes.end(), [&](NodeId node) { return takes_part(node); }))
          continue;
        begin_segment(s, device_);
        for (NodeId node : segment.nodes) {
          if (!takes_part(node)) continue;
          localise_node(node);
          for (ValueId out : graph_.node(node).outputs)
            if (feeds_comm_[out] && is_local(out)) make_dense(out);
        }
      }
    }
    for (const Output& output : graph_.outputs) add_outputs(output);
    return std::move(program_);
  }

 private:
  // True if the current device computes a part of the node's result, or sends or receives in a transfer.
  bool takes_part(NodeId id) const {
    const Node& node = graph_.node(id);
    return is_local(node.outputs[0]) || (node.op->role == Role::transfer && is_local(node.inputs[0]));
  }
  // Adds an output for the part of every own device. If this rank has no part of the value, other ranks output it.
  void add_outputs(const Output& output) {
    for (device_ = 0; static_cast<std::size_t>(device_) < own_.size(); ++device_)
      if (is_local(output.value)) program_.outputs.push_back({output.name, device_, at(output.value)});
  }

  // Adds an array that is already on the mesh: each device reads its part.
  void add_array_input(SegmentId segment, ValueId value) {
    for (device_ = 0; static_cast<std::size_t>(device_) < own_.size(); ++device_) {
      if (!is_local(value)) continue;
      Box box = box_of(value);
      View view(graph_.type(value).dtype, shape_of(box));
      LocalId part = add({value, device_, std::move(box), std::move(view), {}, 0, segment, -1, false});
      begin_segment(segment, device_);
      current_segment().writes = {part};
      define(value, part);
    }
  }

  // Adds a batch input: registers on the rank's host, with windows for the devices. The strides of a window must not
  // depend on the other parts that the rank has, since kernels are chosen by strides. Therefore parts along the batch
  // share one register, and parts along other dimensions have a register each.
  void add_input(SegmentId segment, NodeId node) {
    ValueId value = graph_.node(node).outputs[0];
    if (graph_.node(node).attrs.flag("array", false)) return add_array_input(segment, value);
    std::map<std::string, LocalId> parts;  // by box as text
    for (device_ = 0; static_cast<std::size_t>(device_) < own_.size(); ++device_) {
      if (!is_local(value)) continue;
      Box box = box_read(value);
      const Box held_box = box_held(value);
      auto [entry, inserted] =
          parts.try_emplace(join(held_box, ",", [](const Range& r) { return cat(r.begin, ":", r.end); }));
      if (inserted) {
        entry->second =
            add({value, -1, held_box, View(graph_.type(value).dtype, shape_of(held_box)), {}, 0, segment, -1, false});
        begin_segment(segment, -1);
        current_segment().writes = {entry->second};
      }
      std::int64_t offset = 0;
      View view = slice_view(local(entry->second).view, held_box, box, offset);
      define(value, add_window(value, entry->second, std::move(view), offset, std::move(box)));
    }
  }

  // Returns the box that the current device reads: if all readers are slices, only the rows of these slices.
  Box box_read(ValueId value) const {
    Box box = box_of(value);
    if (box.empty() || uses_[value].empty() || is_output_[value]) return box;
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

  // Returns the current device's box, extended to all rows from the first to the last that own devices read.
  Box box_held(ValueId value) {
    const int device = device_;
    Box held_box = box_read(value);
    for (device_ = 0; static_cast<std::size_t>(device_) < own_.size(); ++device_) {
      if (!is_local(value) || held_box.empty()) continue;
      const Range rows = box_read(value)[0];
      held_box[0] = {std::min(held_box[0].begin, rows.begin), std::max(held_box[0].end, rows.end)};
    }
    device_ = device;
    return held_box;
  }

  void localise_box(NodeId id) {
    const Node& node = graph_.node(id);
    ValueId in = node.inputs[0], out = node.outputs[0];
    Move move = move_from(node.attrs.text("move"));
    LocalId source = at(in);
    Box box = box_of(out);
    if (move == Move::slice) {
      std::int64_t offset = 0;
      View view = slice_view(local(source).view, local(source).box, box, offset);
      define(out, add_window(out, source, std::move(view), offset, std::move(box)));
      return;
    }
    if (move == Move::to_partial) {
      localise_to_partial(id, source, std::move(box));
      return;
    }
    current_segment().collective = id;
    current_segment().reads = {source};
    add_collective_result(out, std::move(box));
  }

  void localise_transfer(NodeId id) {
    const Node& node = graph_.node(id);
    ValueId in = node.inputs[0], out = node.outputs[0];
    current_segment().collective = id;
    if (is_local(in)) current_segment().reads = {at(in)};
    if (!is_local(out)) return;
    add_collective_result(out, box_of(out));
  }

  void add_collective_result(ValueId out, Box box) {
    Shape shape = shape_of(box);
    LocalId result = add(new_value(out, dense_view(out, shape), std::move(box)));
    current_segment().writes = {result};
    define(out, result);
  }

  void localise_to_partial(NodeId id, LocalId source, Box box) {
    const Node& node = graph_.node(id);
    ValueId out = node.outputs[0];
    DType dtype = graph_.type(out).dtype;
    Reduce reduce = reduce_from(node.attrs.text("to"));
    bool is_replicated = node.attrs.text("from") == "B";
    int coordinate = graph_.mesh(out).coordinates(position(out))[static_cast<std::size_t>(node.attrs.integer("axis"))];
    if (is_replicated && (coordinate == 0 || reduce != Reduce::sum)) {  // the max of equal values is the value itself
      define(out, add_window(out, source, local(source).view, 0, std::move(box)));
      return;
    }
    Attr identity = identity_of(reduce, dtype);
    if (is_replicated) {
      define(out, add_splat(out, dtype, identity, box));
      return;
    }
    Ints low, high;
    const Box& part = local(source).box;
    for (std::size_t d = 0; d < box.size(); ++d) {
      low.push_back(part[d].begin - box[d].begin);
      high.push_back(box[d].end - part[d].end);
    }
    LocalId result = add(new_value(out, dense_view(out, shape_of(box)), box));
    LocalCall call;
    call.spec.op = "pad";
    call.spec.attrs.set("low", low).set("high", high).set("value", identity);
    call.spec.in = {local(source).view};
    call.spec.out = {local(result).view};
    call.in = {source};
    call.out = {result};
    call.node = id;
    Cost work = copy_work(call.spec.out[0]);
    add_call(std::move(call), work);
    define(out, result);
  }

  // Defines the result of a window op as a window on the operand or, if strides cannot express the window, on a
  // row-major copy of the operand. Returns false for other ops.
  bool define_window(const NodeView& view, const Attrs& attrs) {
    const OpDef& op = *view.node().op;
    if (op.role != Role::window) return false;
    ValueId out = view.out(0);
    LocalId source = at(view.in(0));
    Box box = box_of(out);
    Shape shape = shape_of(box);
    auto seen_view = op.window(local(source).view, shape, attrs);
    if (!seen_view) {
      source = copy_to(source, View(local(source).view.type()));
      seen_view = op.window(local(source).view, shape, attrs);
      if (!seen_view.has_value())
        fail("localise: ", describe(graph_, view.id), " cannot view ", local(source).view, " as ", shape);
    }
    define(out, add_window(out, source, std::move(seen_view->view), seen_view->offset, std::move(box)));
    return true;
  }

  bool define_constant(const NodeView& view, const Attrs& attrs) {
    if (view.node().op->role != Role::constant) return false;
    ValueId out = view.out(0);
    const TensorType& type = view.out_type(0);
    Box box = box_of(out);
    if (attrs.has("value")) {
      define(out, add_splat(out, type.dtype, attr_at(attrs, "value"), box));
      return true;
    }
    LocalValue value = new_value(out, dense_view(out, shape_of(box)), box);
    value.constant = true;
    value.segment = {};
    LocalId constant_id = add(std::move(value));
    LocalCall call;
    call.spec = call_of(view, {}, {local(constant_id).view}, attrs);
    call.out = {constant_id};
    call.node = view.id;
    choose_kernel(call);
    program_.setup.push_back(std::move(call));
    define(out, constant_id);
    return true;
  }

  void localise_node(NodeId id) {
    node_ = id;
    NodeView view{&graph_, id};
    const Node& node = view.node();
    if (node.op->role == Role::transition) return localise_box(id);
    if (node.op->role == Role::transfer) return localise_transfer(id);
    if (node.op->role == Role::state) {
      ValueId out = view.out(0);
      Box box = box_of(out);
      LocalValue value = new_value(out, stored_view(view.out_type(0).dtype, shape_of(box)), box);
      value.segment = {};
      const std::string& name = node.attrs.text("name");
      const auto found = variable_by_name_.find(name);
      require(found != variable_by_name_.end(), "localise: the graph has no variable '", name, "'");
      value.variable = found->second;
      const int variable = value.variable;
      define(out, variables_[{device_, variable}] = add(std::move(value)));
      return;
    }
    LocalView local_view{view, {}, {}};
    for (ValueId in : node.inputs) local_view.in.push_back(local(at(in)).box);
    for (ValueId out : node.outputs) local_view.out.push_back(box_of(out));
    if (node.op->role == Role::accumulate || node.op->role == Role::micro_join || node.op->role == Role::micro_slice)
      return localise_between_acts(view, local_view);
    Attrs attrs = graph::localise(local_view);
    if (define_constant(view, attrs) || define_window(view, attrs)) {
      if (!node.act_attrs.empty())
        fail("localise: ", describe(graph_, id), " calls no kernel, so its attributes cannot differ from act to act");
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
      int overwritten = overwritten_variable_[value];
      LocalId output_id;
      if (overwritten >= 0) {
        // Overwrites the variable itself, not the copy of the variable that collectives read.
        const LocalId old_version = variables_.at({device_, overwritten});
        output_id = add_window(value, old_version, local(old_version).view, 0, std::move(box));
      } else {
        View output_view = dense_view(value, shape_of(box));
        output_id = add(new_value(value, std::move(output_view), std::move(box)));
      }
      define(value, output_id);
      call.out.push_back(output_id);
      out.push_back(local(output_id).view);
    }
    call.spec = call_of(view, in, out, attrs);
    if (node.op->role == Role::store) call.in.erase(call.in.begin());
    Cost work = device_work(graph_, id);
    call.spec.team = team_of(work);
    if (node.act_attrs.empty()) return add_call(std::move(call), work);
    for (int act = 0; act < node.acts; ++act) {
      const Attrs act_attrs = attrs_at(node, act);
      local_view.node.resolved_attrs = &act_attrs;
      LocalCall act_call = call;
      act_call.spec = call_of(view, in, out, graph::localise(local_view));
      act_call.spec.team = call.spec.team;
      act_call.acts = {act, act + 1};
      add_call(std::move(act_call), work);
    }
  }

  // Localises nodes that join the results of acts or split a value among acts. Each act copies to or from a different
  // offset. A sum over acts begins with a copy.
  void localise_between_acts(const NodeView& view, const LocalView& local_view) {
    const Node& node = view.node();
    const LocalId operand = at(view.in(0));
    const Box& box = local_view.out[0];
    const LocalId result = add(new_value(view.out(0), dense_view(view.out(0), shape_of(box)), box));
    define(view.out(0), result);
    auto emit_call = [&](const char* op, Attrs attrs, std::vector<LocalId> in, LocalId out, plan::ActRange acts) {
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
      add_call(std::move(call), work);
    };
    const plan::ActRange first{0, node.acts > 1 ? 1 : 0};
    if (node.op->role == Role::accumulate) {
      emit_call("copy", {}, {operand}, result, first);
      if (node.acts > 1)
        emit_call("pointwise", Attrs().set("expr", "x + y"), {result, operand}, result, {1, node.acts});
      return;
    }
    const auto axis = static_cast<std::size_t>(node.attrs.integer("axis"));
    const bool joins = node.op->role == Role::micro_join;
    const LocalId large = joins ? result : operand, small = joins ? operand : result;
    const std::int64_t size = local(small).view.shape[axis];
    for (int act = 0; act < node.acts; ++act) {
      Box part = local(large).box;
      part[axis] = {local(large).box[axis].begin + act * size, local(large).box[axis].begin + (act + 1) * size};
      std::int64_t offset = 0;
      View part_view = slice_view(local(large).view, local(large).box, part, offset);
      const LocalId part_window =
          add_window(joins ? view.out(0) : view.in(0), large, std::move(part_view), offset, std::move(part));
      emit_call("copy", {}, {joins ? small : part_window}, joins ? part_window : small,
                node.acts > 1 ? plan::ActRange{act, act + 1} : first);
    }
  }

  const Segmentation& segmentation_;
  const ById<ValueId, std::vector<Use>> uses_;
  ById<ValueId, bool> feeds_comm_, is_output_;
  ById<ValueId, int> overwritten_variable_;  // the variable whose memory the value overwrites, or -1
  std::map<std::string, int, std::less<>> variable_by_name_;
  std::map<std::pair<int, int>, LocalId> variables_;  // old version of each variable, by own device and variable
};

}  // namespace

LocalProgram localise(const Graph& graph, const Streams& stream, const Segmentation& segmentation,
                      const DimensionOrders& orders, const KernelCatalog& catalog, const CompileOptions& options) {
  return Localiser(graph, stream, segmentation, orders, catalog, options).run();
}

}  // namespace karez::passes
