// The bytes that a device holds at once when the nodes of its placement act one after the other, as they stand.
#pragma once

#include <cstdint>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The most on any placement's busiest device: each value from the node that makes it to the last that reads it, through
// windows too. Variables, constants and inputs are left out, and so is what calls share in place.
std::int64_t peak_live_bytes(const Graph& graph);

}  // namespace karez::passes
