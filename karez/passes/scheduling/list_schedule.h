// List scheduling: the order in which nodes begin if every stream runs the ready node with the longest path first.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Returns the rank of each node: its number in the order in which nodes begin in a simulation. The simulation runs each
// node once, on one representative device of each placement with a compute and a comm stream. An idle stream begins the
// ready node with the longest path to the end of the launch, in seconds of the cost table; if several paths are equally
// long, it begins the node that was traced first. A node that takes no time (a window, constant, variable, or an input,
// whose source acts when the launch begins) has the rank of its first reader.
//
// As a result, a transfer begins as soon as its operand exists and the stream is idle. An input gradient, for which the
// rest of the backward pass waits, comes before a weight gradient, for which only an update waits, and weight gradients
// fill the gaps that transfers leave. Updates, and nodes that wait for them, begin when the stream has finished all
// other nodes.
ById<NodeId, int> list_schedule(const Graph& graph, const Streams& stream, const CostTable& costs);

}  // namespace karez::passes
