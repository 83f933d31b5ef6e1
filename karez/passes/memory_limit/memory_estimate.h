// What a layout keeps in the memory of one device, as a sum over nodes: what memory is priced by before any plan is
// made.
#pragma once

#include <vector>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {

// Nodes at which most is held, by placement (Graph::meshes).
using PeakNodes = std::vector<NodeId>;

// Of a laid program, with the copies that changes of layout make, in the order in which it stands.
PeakNodes peak_nodes(const ShardedGraph& laid, const OpTable& ops, const CostTable& costs);

// Bytes of a device that variables take and what is live at the fullest moment of a boxed graph as it stands. Within a
// few percent above or a third below what the plan's acts hold one after the other, which fuses calls and hands on
// windows and buffers, and knows of inputs on the host.
std::int64_t peak_device_bytes(const Graph& boxed);

// Bytes of a device, in one of two accounts, for no sum over nodes is right: which readers share a copy, and when the
// fullest moment of another layout is, no node knows. Both count variables as they are stored, and a small part of all
// that calls read and make.
//   made  what is live at the first moment counts in full, in the layout in which it is made
//   read  what readers at a moment or behind it want of a value counts in the layouts in which they want it, in the
//   mean over them and over the moments
// Windows, constants and next versions of variables lie in others' bytes. What readers want of variables counts little:
// it is there only while they read it (see gather_late.h).
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
