// Estimates the bytes per device that layouts require, as a sum over nodes, before a plan exists.
#pragma once

#include <vector>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {

// The node at which the most bytes are live, for each placement (Graph::meshes).
using PeakNodes = std::vector<NodeId>;

// Returns the peak nodes of a program with layouts whose nodes run in program order. The copies that layout changes
// make are included.
PeakNodes peak_nodes(const ShardedGraph& sharded, const OpTable& ops, const CostTable& costs);

// Returns the bytes per device of the variables and of the values that are live at the peak of a boxed graph in program
// order. Compared with a plan whose acts run one after another, the result is at most a few percent too high or a
// third too low, because a plan fuses calls, lets values share buffers, and includes inputs on the host.
std::int64_t peak_device_bytes(const Graph& boxed);

// How to count bytes per device. There are two accounts, because no sum over nodes is exact: a single node does not
// determine which readers share a copy, or at which node other layouts have their peak. Both accounts count variables
// as they are stored, and a small share of all operands and results of calls.
//   producer_layouts  a value that is live at a peak node counts in full, in the layout in which it is produced
//   consumer_layouts  a value with readers at or after a peak node counts in the layouts in which these readers take
//                     it, averaged over the readers and the peaks
// Windows, constants and next versions of variables share the memory of other values, and results are in the memory of
// the user. Layouts in which readers take variables count little, since such a copy exists only while it is read (see
// gather_late.h).
enum class MemoryAccount { producer_layouts, consumer_layouts };
class MemoryEstimate {
 public:
  MemoryEstimate(const Graph& graph, const std::vector<PeakNodes>& peaks, MemoryAccount account);
  double of(const Graph& graph, NodeId node, const std::vector<Layout>& ins, const std::vector<Layout>& outs) const;
  double of(const ShardedGraph& sharded) const;  // for any layouts of the same graph

 private:
  ById<NodeId, std::vector<double>> operand_weights_, result_weights_;
};

}  // namespace karez::passes
