// The rules of the fuse pass.
#pragma once

#include <span>

#include "karez/passes/lowering/fuse/fuse.h"
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

struct FuseRule {
  int (*apply)(SegmentCalls&);
  bool removes_values;             // calls that the rule merges do not store some values
  bool removes_accesses;           // nor does the merged call write and read their memory
  bool FuseOptions::*option = {};  // the rule applies only if this option is set
};
std::span<const FuseRule> fuse_rules();  // in the order in which they run

}  // namespace karez::passes
