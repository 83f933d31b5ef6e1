// Fuses a bias that is added to a matrix product or convolution into the library call.
#include "karez/graph/op.h"
#include "karez/passes/lowering/fuse/rules.h"

namespace karez::passes {

// Fuses add(matmul(a, w), bias along the last dimension) and add(conv2d(x, w), bias along the channels).
int fuse_bias(SegmentCalls& segment) {
  int changes = 0;
  for (std::size_t i = 0; i < segment.calls().size(); ++i) {
    const LocalCall& call = segment.calls()[i];
    if (!segment.accepts_epilogue(call) || call.spec.attrs.flag("bias", false)) continue;
    LocalCall* reader = segment.only_reader(call);
    const OpDef* op = reader == nullptr ? nullptr : segment.op_of(*reader);
    if (op == nullptr || op->name != "add") continue;
    LocalId product = call.out[0];
    int bias_operand = reader->in[0] == product ? 1 : reader->in[1] == product ? 0 : -1;
    if (bias_operand < 0) continue;
    LocalId bias = reader->in[static_cast<std::size_t>(bias_operand)];
    if (bias == product) continue;
    const View& bias_view = segment.view(bias);
    std::size_t bias_dim = call.spec.op == "matmul" ? bias_view.shape.size() - 1 : 1;
    bool is_bias = true;
    for (std::size_t d = 0; d < bias_view.shape.size(); ++d)
      is_bias &= bias_view.shape[d] == 1 || bias_view.strides[d] == (d == bias_dim ? 1 : 0);
    if (!is_bias) continue;
    LocalCall fused = call;
    fused.in.push_back(bias);
    fused.spec.in.push_back(View(bias_view.dtype, {bias_view.shape[bias_dim]}));
    fused.spec.attrs.set("bias", true);
    changes += segment.absorb(i, *reader, std::move(fused));
  }
  return changes;
}

}  // namespace karez::passes
