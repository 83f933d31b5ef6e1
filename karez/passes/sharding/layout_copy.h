// Copies the layouts of one program to another version of the program that computes some of its nodes twice.
#pragma once

#include <optional>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {

// Gives every node of `graph` the layouts of the equal node in `source` (with the same op, attributes, module, line and
// operands). Returns nullopt if a node has no equal node in `source`.
std::optional<ShardedGraph> copy_layouts(Graph graph, const ShardedGraph& source);

}  // namespace karez::passes
