// Estimates the bytes of one device that layouts require, as a sum over nodes, before any plan is made.
#pragma once

#include <vector>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {

// The nodes at which most bytes are live, by placement (Graph::meshes).
using PeakNodes = std::vector<NodeId>;

// The peak nodes of a program with layouts, in program order, including the copies that layout changes make.
PeakNodes peak_nodes(const ShardedGraph& laid, const OpTable& ops, const CostTable& costs);

// Bytes per device of the variables and of the values that are live at the peak of a boxed graph in program order. The
// result is between a few percent above and a third below the bytes of the plan when its acts run one after the other,
// because a plan fuses calls, passes on windows and buffers, and includes inputs on the host.
std::int64_t peak_device_bytes(const Graph& boxed);

// Bytes per device in one of two accounts, because no sum over nodes is exact: a single node does not determine which
// readers share a copy, or at which node other layouts have their peak. Both accounts count variables as they are
// stored, and a small share of all operands and results of calls.
//   producer_layouts  a value that is live at a peak node counts in full, in the layout in which it is produced
//   consumer_layouts  a value with readers at or after a peak node counts in the layouts in which these readers take
//                     it, averaged over the readers and the peaks
// Windows, constants and next versions of variables share other values' bytes. Layouts in which readers take variables
// count little: such a copy exists only while it is read (see gather_late.h).
enum class MemoryAccount { producer_layouts, consumer_layouts };
class MemoryEstimate {
 public:
  MemoryEstimate(const Graph& graph, const std::vector<PeakNodes>& moments, MemoryAccount account);
  double of(const Graph& graph, NodeId node, const std::vector<Layout>& ins, const std::vector<Layout>& outs) const;
  double of(const ShardedGraph& laid) const;  // of any layouts of the same graph

 private:
  ById<NodeId, std::vector<double>> read_, made_;  // shares, by operand and by result
};

}  // namespace karez::passes
