// Ops that return their operand unchanged: assign stores it as the new value of a variable, copy preserves an old value
// for later consumers, and layout applies the layout that a user requests.
#include "karez/ops/op_rows.h"
#include "karez/ops/shapes.h"

namespace karez::ops {

std::vector<OpDef> assign_ops() {
  OpDef assign{
      .name = "assign",
      .doc = "Returns the second operand and writes it over the first: (old, value) -> value. Assigns a variable.",
      .inputs = 2};
  assign.work = WorkClass::move;
  assign.infer = [](std::span<const TensorType> in, const Attrs&) {
    require_same_type("assign", in[0], in[1]);
    return std::vector{in[1]};
  };
  assign.index = same_shape_signature;
  assign.no_grad = "an update";
  assign.in_place = {{0, 0}};
  assign.role = Role::store;
  assign.call_name = "copy";
  assign.half_policy = HalfPolicy::keep;

  OpDef copy{.name = "copy", .doc = "Returns a copy of x in separate memory.", .inputs = 1};
  copy.work = WorkClass::move;
  copy.infer = [](std::span<const TensorType> in, const Attrs&) { return std::vector{in[0]}; };
  copy.index = [](const NodeView& node) {
    Signature s = same_shape_signature(node);
    s.moves = true;
    return s;
  };
  copy.half_policy = HalfPolicy::keep;
  copy.grad = [](Builder&, const NodeView&, std::span<const ValueId> dy) { return std::vector{dy[0]}; };

  OpDef layout{
      .name = "layout",
      .doc =
          "Returns x. A layout that the user requests for the result does not apply to x. If {planned} names mesh "
          "axes, the planner chooses a layout that splits the result only along these axes.",
      .inputs = 1};
  layout.infer = copy.infer;
  layout.index = copy.index;
  layout.grad = copy.grad;
  layout.cost = no_cost;  // an alias
  layout.role = Role::window;
  layout.window = [](const View& x, const Shape&, const Attrs&) -> std::optional<OffsetView> {
    return OffsetView{x, 0};
  };
  layout.call_name = "copy";
  return {assign, copy, layout};
}

}  // namespace karez::ops
