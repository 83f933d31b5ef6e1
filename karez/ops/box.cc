// box: changes the layout along one mesh axis. Only the pass `box` inserts it.
#include "karez/ops/op_rows.h"
#include "karez/ops/shapes.h"

namespace karez::ops {

std::vector<OpDef> box_ops() {
  OpDef op{
      .name = "box",
      .doc =
          "Changes the layout of x on mesh axis number {axis} from {from} to {to}, by the transition {move}. The sbp "
          "component computes the cost.",
      .inputs = 1,
      .infer =
          [](std::span<const TensorType> in, const Attrs& attrs) {
            require(ErrorKind::shape, attrs.integer("axis") >= 0, "box: the mesh axis must be at least 0, got ",
                    attrs.integer("axis"));
            attrs.text("move");
            attrs.text("from");
            attrs.text("to");
            return std::vector{in[0]};
          },
      .no_grad = "boxes are inserted after differentiation",
      .cost = no_cost,
      .role = Role::transition};
  return {op};
}

}  // namespace karez::ops
