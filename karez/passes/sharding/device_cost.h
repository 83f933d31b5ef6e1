// The cost of a node on the busiest device, from the layouts of its operands and results.
#pragma once

#include <vector>

#include "karez/graph/op.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Seconds of the device at position 0 of the node's mesh, which has the largest part of every split value. Every device
// computes Broadcast results in full. Windows, constants, nodes in the set-up (Node::setup) and variables at the
// beginning of the launch cost nothing; sbp computes the cost of a layout change.
double device_seconds(const Graph& graph, NodeId node, const std::vector<Layout>& in, const std::vector<Layout>& out,
                      const CostTable& costs);
double device_seconds(const Graph& graph, NodeId node, const CostTable& costs);  // in the layouts of its values
Cost device_work(const Graph& graph, NodeId node);  // the work instead of its seconds, also for set-up nodes

// Bytes of the value on the device that has the largest part of it.
std::int64_t largest_part(const Graph& graph, ValueId value);

}  // namespace karez::passes
