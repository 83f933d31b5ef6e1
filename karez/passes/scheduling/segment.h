// The segment pass: divides the nodes of each stream, in their order, into segments; each segment becomes an actor.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// A segment ends after a node whose value another stream reads. It also ends before a node that reads a value from
// another stream, unless the segment already waits for that value. Host inputs do not end a segment, because their
// sources act when the launch begins. Consecutive updates stay in one segment: they come last in the step, and one
// multi-tensor update saves more time than an early start of the first update.
Segmentation segment(const Graph& graph, const Streams& stream_of);

}  // namespace karez::passes
