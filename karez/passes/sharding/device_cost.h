// The cost of a node on the busiest device, from the layouts of its operands and results.
#pragma once

#include <vector>

#include "karez/graph/op.h"
#include "karez/passes/lowering/fuse/fused_values.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Returns the seconds that the node takes on the device at position 0 of its mesh, which has the largest part of every
// split value. `in` and `out` are the layouts of its operands and results. Every device computes Broadcast results in
// full. Windows, constants, nodes in the setup (Node::setup) and the reading of variables cost nothing. Nor do the
// accesses to values that fuse; they are part of the values' prices (value_price.h). The cost of layout changes is not
// included; the sbp component computes it.
double device_seconds(const Graph& graph, NodeId node, const std::vector<Layout>& in, const std::vector<Layout>& out,
                      const CostTable& costs, const FusedValues& fused = {});
double device_seconds(const Graph& graph, NodeId node, const CostTable& costs);  // with the layouts of the graph
Cost device_work(const Graph& graph, NodeId node);  // the work instead of its seconds, also for nodes in the setup

// Returns the bytes of the value on the device that has the largest part of it.
std::int64_t largest_part(const Graph& graph, ValueId value);
std::int64_t largest_part(const TensorType& type, const Mesh& mesh, const Layout& layout);

}  // namespace karez::passes
