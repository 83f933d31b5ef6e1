// anchor: control edges that fix a segment, which else may act at any time until the end of the launch, before what
// follows it on its stream.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// A weight gradient waits for what the input gradient beside it waits for, and nothing but the update at the end waits
// for it. It acts where the order has it, since a stream does what stands first in the order; but no edge says so, and
// what it reads would keep its bytes to itself until the end of the launch. So each compute segment that acts once a
// launch gets an edge to the first segment behind it on its stream that waits for all that it waits for itself. That
// costs nothing: whenever the later one could begin, the earlier one could, and goes first.
Graph anchor(Graph graph, const Segmentation& segmentation);

}  // namespace karez::passes
