// Copies the layouts of one program to another that computes some of its nodes twice.
#pragma once

#include <optional>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {

// Gives every node of `graph` the layouts of its equal in `laid` (equal op, attributes, module, line, and operands);
// nullopt if a node has no equal there.
std::optional<ShardedGraph> copy_layouts(Graph graph, const ShardedGraph& laid);

}  // namespace karez::passes
