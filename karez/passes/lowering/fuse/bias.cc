// Fuses a bias that is added to a matrix product or convolution into the library call.
#include "karez/graph/op.h"
#include "karez/passes/lowering/fuse/rules.h"

namespace karez::passes {

// add(matmul(a, w), bias broadcast along the last dimension), add(conv2d(x, w), bias broadcast along the channels)
int fuse_bias(SegmentCalls& segment) {
  int fired = 0;
  for (std::size_t i = 0; i < segment.calls().size(); ++i) {
    const LocalCall& call = segment.calls()[i];
    if (!segment.accepts_epilogue(call) || call.spec.attrs.flag("bias", false)) continue;
    LocalCall* reader = segment.only_reader(call);
    const OpDef* op = reader == nullptr ? nullptr : segment.op_of(*reader);
    if (op == nullptr || op->name != "add") continue;
    LocalId product = call.out[0];
    int which = reader->in[0] == product ? 1 : reader->in[1] == product ? 0 : -1;
    if (which < 0) continue;
    LocalId bias = reader->in[static_cast<std::size_t>(which)];
    if (bias == product) continue;
    const View& seen = segment.view(bias);
    std::size_t along = call.spec.op == "matmul" ? seen.shape.size() - 1 : 1;
    bool repeats = true;
    for (std::size_t d = 0; d < seen.shape.size(); ++d)
      repeats &= seen.shape[d] == 1 || seen.strides[d] == (d == along ? 1 : 0);
    if (!repeats) continue;
    LocalCall changed = call;
    changed.in.push_back(bias);
    changed.spec.in.push_back(View(seen.dtype, {seen.shape[along]}));
    changed.spec.attrs.set("bias", true);
    fired += segment.absorb(i, *reader, std::move(changed));
  }
  return fired;
}

}  // namespace karez::passes
