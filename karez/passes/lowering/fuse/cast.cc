// Fuses casts between f32 and 16-bit floats into the call that produces the value, or into pointwise calls that read
// it.
#include "karez/graph/op.h"
#include "karez/passes/lowering/fuse/rules.h"

namespace karez::passes {
namespace {

bool is_cast(const SegmentCalls& segment, const LocalCall& call) {
  const OpDef* op = segment.op_of(call);
  return op != nullptr && op->name == "cast" && call.spec.op == "cast";
}
bool is_pointwise(const LocalCall& call) { return !SegmentCalls::is_removed(call) && call.spec.op == "pointwise"; }

}  // namespace

// Fuses cast(matmul(a, w)) or cast(add(x, y)) into a call that rounds its result.
int fuse_cast_after(SegmentCalls& segment) {
  int changes = 0;
  for (std::size_t i = 0; i < segment.calls().size(); ++i) {
    const LocalCall& call = segment.calls()[i];
    if ((!segment.accepts_epilogue(call) && !is_pointwise(call)) || call.out.size() != 1 ||
        call.spec.out[0].dtype != DType::f32)
      continue;
    LocalCall* reader = segment.only_reader(call);
    if (reader == nullptr || !is_cast(segment, *reader) || reader->in[0] != call.out[0] ||
        !is_half(reader->spec.out[0].dtype))
      continue;
    changes += segment.absorb(i, *reader, call);
  }
  return changes;
}

// Fuses add(cast(x), y) into a call that reads the 16-bit value directly.
int fuse_cast_before(SegmentCalls& segment) {
  int changes = 0;
  for (std::size_t i = 0; i < segment.calls().size(); ++i) {
    const LocalCall& cast = segment.calls()[i];
    if (!is_cast(segment, cast) || !is_half(cast.spec.in[0].dtype)) continue;
    changes += segment.bypass(i, is_pointwise);
  }
  return changes;
}

}  // namespace karez::passes
