// Fuses a ReLU after a matrix product or convolution into the library call.
#include "karez/graph/op.h"
#include "karez/passes/lowering/fuse/rules.h"

namespace karez::passes {

int fuse_relu(SegmentCalls& segment) {
  int changes = 0;
  for (std::size_t i = 0; i < segment.calls().size(); ++i) {
    const LocalCall& call = segment.calls()[i];
    if (!segment.accepts_epilogue(call) || call.spec.attrs.flag("relu", false)) continue;
    LocalCall* reader = segment.only_reader(call);
    const OpDef* op = reader == nullptr ? nullptr : segment.op_of(*reader);
    if (op == nullptr || op->name != "relu" || reader->in[0] != call.out[0]) continue;
    LocalCall fused = call;
    fused.spec.attrs.set("relu", true);
    changes += segment.absorb(i, *reader, std::move(fused));
  }
  return changes;
}

}  // namespace karez::passes
