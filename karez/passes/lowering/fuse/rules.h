// The rules of the fuse pass.
#pragma once

#include "karez/passes/lowering/fuse/segment_calls.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Each rule changes the calls of one actor and returns the number of its changes.
int fuse_bias(SegmentCalls& segment);
int fuse_relu(SegmentCalls& segment);
int fuse_cast_after(SegmentCalls& segment);
int fuse_cast_before(SegmentCalls& segment);
int fuse_rows(SegmentCalls& segment);
int fuse_chains(SegmentCalls& segment);
int merge_updates(SegmentCalls& segment);
int group_products(SegmentCalls& segment);
int group_calls(SegmentCalls& segment);

}  // namespace karez::passes
