// segment: actors as intervals of the order on one stream.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Cuts after a node whose value another stream takes, and before the first node that takes from another stream
// something its segment does not wait for yet. Host inputs do not cut: their sources act when the launch begins. A run
// of updates is one unit: it ends the step, and one multi-tensor update beats an early first one.
Segmentation segment(const Graph& graph, const Streams& stream_of);

}  // namespace karez::passes
