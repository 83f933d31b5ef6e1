// The layout of each value of a program on the axis of micro-batches, that is, in time.
#pragma once

#include <set>
#include <string>

#include "karez/graph/op.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The layout of a value in time, and the sum for which the value waits.
struct TimeLayout {
  Sbp layout = B();
  NodeId awaited_sum;  // if Broadcast: a sum over all micro-batches on which the value depends; invalid if none
};

// Whether a node acts once for each micro-batch and, if so, the layouts of its operands and results.
struct NodeSplit {
  bool is_split = false;
  Sharding sharding;
};

struct MicrobatchLayouts {
  int count = 1;  // number of micro-batches
  std::int64_t batch = 0;
  std::int64_t groups = 1;  // groups of equal size that the rows of the batch form
  std::string batch_text;   // a description of the batch, for the end of error messages
  std::set<NodeId> early;   // sums over the whole batch that are computed before the first micro-batch
  ById<ValueId, TimeLayout> time;
  ById<NodeId, NodeSplit> splits;
  ById<ValueId, bool> is_read_whole;   // values read by nodes that act once
  ById<NodeId, bool> is_whole_source;  // split inputs that an early sum reads
};

// Chooses the layouts for `count` micro-batches of a batch of `rows` rows (0: see microbatch.h).
MicrobatchLayouts choose_microbatch_layouts(const Graph& graph, int count, std::int64_t rows);

// Returns all layouts of the node in time; a transfer to another placement keeps the layout of its operand.
std::vector<Sharding> shardings_in_time(const Graph& graph, NodeId node, int count);

}  // namespace karez::passes
