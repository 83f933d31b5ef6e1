// segment: groups nodes into segments, intervals of the order on one stream, which become actors.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Cuts after a node if another stream takes its value, and before the first node that takes a value from another stream
// for which its segment does not wait yet. Host inputs do not cut: their sources act when the launch begins. A run of
// updates is not cut: it ends the step, and one multi-tensor update is faster than an early first one.
Segmentation segment(const Graph& graph, const Streams& stream_of);

}  // namespace karez::passes
