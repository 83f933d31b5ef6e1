// anchor: adds control edges that make a segment act before a later segment of its stream, if it could otherwise act at
// any time until the end of the launch.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// A weight gradient waits for the same values as the input gradient next to it, and only the update at the end of the
// launch waits for it. It acts at its position in the order, since a stream runs its ready acts in that order; but no
// edge requires this, so its operands would occupy their memory until the end of the launch. Therefore each compute
// segment that acts once per launch gets an edge to the first later segment of its stream that waits for everything for
// which the earlier segment waits. The edge costs nothing: whenever the later segment could begin, the earlier one
// could begin too, and it runs first.
Graph anchor(Graph graph, const Segmentation& segmentation);

}  // namespace karez::passes
