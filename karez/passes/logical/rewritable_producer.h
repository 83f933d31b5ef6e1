// Whom a rewrite may look through to.
#pragma once

#include "karez/graph/graph.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// The node that makes the value, unless the user fixed the value's layout: a rule that looked through it would lose the
// place where the user wants the bytes laid so. Every rule that looks behind an operand asks here. Before `shard` only:
// afterwards every value has a layout.
const Node* rewritable_producer(const Graph& graph, ValueId value);

}  // namespace karez::passes
