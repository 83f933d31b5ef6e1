// transfer: moves a value to another placement. The builder inserts it before a node with operands on several meshes.
#include "karez/ops/op_rows.h"
#include "karez/ops/shapes.h"

namespace karez::ops {

std::vector<OpDef> transfer_ops() {
  OpDef op{.name = "transfer",
           .doc =
               "Moves x to the mesh of the result. The planner chooses the cheapest layouts on both meshes. Each "
               "device receives each element once; see karez/sbp/transfer.h.",
           .inputs = 1,
           .infer = [](std::span<const TensorType> in, const Attrs&) { return std::vector{in[0]}; },
           .grad =
               [](Builder& b, const NodeView& n, std::span<const ValueId> dy) {
                 return std::vector{b.transfer_to_mesh(dy[0], n.graph->value(n.in(0)).mesh)};
               },
           .cost = no_cost,
           .role = Role::transfer};
  return {op};
}

}  // namespace karez::ops
