// Builds the local call of a node.
#include "karez/passes/lowering/call.h"

namespace karez::passes {

CallSpec call_of(const NodeView& node, std::vector<View> in, std::vector<View> out, const Attrs& local) {
  CallSpec call;
  const OpDef& op = *node.node().op;
  call.in = std::move(in);
  call.out = std::move(out);
  if (!op.expr.empty()) {
    call.op = "pointwise";
    call.attrs.set("expr", op.expr);
    return call;
  }
  call.op = op.call_name.empty() ? op.name : op.call_name;
  call.attrs = local;
  for (const char* attribute : {"name", "shape", "dtype", "dtype_out"}) call.attrs.erase(attribute);
  if (op.role == Role::store) call.in.erase(call.in.begin());  // the old version is only the destination
  return call;
}

View stored_view(DType dtype, const Shape& shape) {
  return View(dtype, shape, shape.size() == 4 ? channels_last(shape) : row_major(shape));
}

}  // namespace karez::passes
