// When each node would begin if every stream did what has the longest way to go: the ranks of the order by cost.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Runs the nodes, each once, on one representative device of each placement with a compute and a comm stream each, as
// `simulate_launch` does. An idle stream begins the ready node from which the way to the end of the launch is longest,
// in seconds of the cost table; of equals the one traced first. So a transfer begins as soon as its operand is there
// and the stream is idle; a gradient of an input, for which all of the backward before it waits, comes before that of a
// weight, for which an update waits, and those of weights fill the gaps that transfers leave. Updates and what waits
// for them come when the stream has done all else. Ranks count what begins;
// what takes no time (windows, constants,
// variables, inputs, whose sources act when the launch begins) ranks with the first that reads it.
ById<NodeId, int> list_schedule(const Graph& graph, const Streams& stream, const CostTable& costs);

}  // namespace karez::passes
