// The rules of fuse and their table.
#pragma once

#include <span>

#include "karez/passes/lowering/fuse/segment_calls.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Each rule changes the calls of one actor and returns the number of its changes.
int fuse_bias(SegmentCalls& segment);
int fuse_relu(SegmentCalls& segment);
int fuse_cast_after(SegmentCalls& segment);
int fuse_cast_before(SegmentCalls& segment);
int merge_updates(SegmentCalls& segment);

struct FuseRule {
  const char* name;
  const char* description;
  int (*run)(SegmentCalls&);
};
std::span<const FuseRule> fuse_rules();  // in the order in which the rules run

}  // namespace karez::passes
