// Lowering one node to the local call that a kernel runs.
#include "passes/call.h"

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
  call.op = op.name == "assign" ? "copy" : op.name;
  call.attrs = local;
  for (const char* said : {"name", "shape", "dtype"}) call.attrs.erase(said);
  if (call.op == "copy") {  // assign(old, new): the old version is only where the bytes go
    call.attrs = {};
    if (call.in.size() == 2) call.in.erase(call.in.begin());
  }
  if (call.op == "pointwise") call.attrs.erase("dtype_out");
  return call;
}

View stored_view(DType dtype, const Shape& shape) { return View(dtype, shape, shape.size() == 4 ? channels_last(shape) : row_major(shape)); }

}  // namespace karez::passes
