// Merges reductions of rows and the pointwise calls before and after them, as in a softmax or a norm, so that they need
// one pass over memory.
#include "karez/passes/lowering/fuse/row_group.h"
#include "karez/passes/lowering/fuse/rules.h"

namespace karez::passes {

int fuse_rows(SegmentCalls& segment) {
  int changes = 0;
  for (std::size_t i = 0; i < segment.calls().size(); ++i) {
    const auto matrix = matrix_of(segment, segment.calls()[i]);
    if (!matrix) continue;
    RowGroup group(segment, i, *matrix);
    group.grow();
    auto merged = group.merged();
    if (!merged) continue;
    segment.regroup(merged->first, merged->last, merged->members, std::move(merged->call), merged->repeated,
                    merged->late);
    i = merged->first - 1;  // the calls from there on have moved; wraps around before the first call
    ++changes;
  }
  return changes;
}

}  // namespace karez::passes
