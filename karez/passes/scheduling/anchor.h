// The anchor pass: adds control edges that make a segment act before a later segment of its stream, if it could
// otherwise act at any time until the end of the launch.
#pragma once

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// A weight gradient waits for the same values as the input gradient next to it, but only the update at the end of the
// launch waits for the weight gradient. A stream runs its ready acts in order, so the weight gradient does act at its
// position in the order. No edge requires this, however, so the memory of its operands could not be reused before the
// end of the launch. Therefore each compute segment that acts once per launch gets an edge to the first later segment
// of its stream that waits for all segments for which the earlier segment waits. The edge costs no time: whenever the
// later segment can begin, the earlier one can begin too, and it runs first.
Graph anchor(Graph graph, const Segmentation& segmentation);

}  // namespace karez::passes
