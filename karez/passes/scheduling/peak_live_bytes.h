// The peak bytes of live values on a device when the nodes of its placement act one after another, in graph order.
#pragma once

#include <cstdint>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Returns the maximum over all placements. Each value counts with the bytes of its largest part. It is live from the
// node that computes it to its last reader, including readers through windows. Variables, constants, inputs and the
// results of updates are not counted.
std::int64_t peak_live_bytes(const Graph& graph);

}  // namespace karez::passes
