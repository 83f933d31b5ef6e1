// Finds the producer of a value, if a rewrite may bypass the value.
#pragma once

#include "karez/graph/graph.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Returns the producer of the value, or null if the user fixed the value's layout, since a rule that bypassed the value
// would lose that layout. Every rule that matches the producer of an operand uses this function. It is valid only
// before the shard pass, because afterwards every value has a layout.
const Node* rewritable_producer(const Graph& graph, ValueId value);

}  // namespace karez::passes
