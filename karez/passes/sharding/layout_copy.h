// Layouts of one program for another that computes some of its nodes twice.
#pragma once

#include <optional>

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard.h"

namespace karez::passes {

// Every node of `graph` as the equal one of `laid` (op, attributes, module, line, and equal operands) lies; nothing
// where one has no equal there.
std::optional<ShardedGraph> copy_layouts(Graph graph, const ShardedGraph& laid);

}  // namespace karez::passes
