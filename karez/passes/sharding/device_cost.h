// What a node costs the busiest device, from the layouts of what it takes and makes.
#pragma once

#include <vector>

#include "karez/graph/op.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Seconds of the device at position 0 of the node's mesh, which has the longer part of everything that is split. What
// is Broadcast is done whole by every device. Windows, constants, what runs in the set-up (Node::setup) and variables
// as the launch finds them cost nothing; a change of layout is priced by sbp, not here.
double device_seconds(const Graph& graph, NodeId node, const std::vector<Layout>& in, const std::vector<Layout>& out,
                      const CostTable& costs);
double device_seconds(const Graph& graph, NodeId node, const CostTable& costs);  // in the layouts that its values have
Cost device_work(const Graph& graph, NodeId node);                               // likewise, as work, in the set-up too

// Of the value, on the device that has the largest part of it.
std::int64_t largest_part(const Graph& graph, ValueId value);

}  // namespace karez::passes
