// rewritable_producer: the producer of a value, if a rewrite may bypass the value.
#pragma once

#include "karez/graph/graph.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The producer of the value; null if the user fixed the value's layout, which a rule that bypassed the value would
// lose. Every rule that matches the producer of an operand uses this function. Valid only before `shard`: after it
// every value has a layout.
const Node* rewritable_producer(const Graph& graph, ValueId value);

}  // namespace karez::passes
