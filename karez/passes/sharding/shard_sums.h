// Finds choices of layouts that let masked sums meet values that may not be finite, and adds tables that forbid them.
#pragma once

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard_tables.h"

namespace karez::passes {

// The first node that passes sums which must be dense and are not (see sum_rules.h); invalid if there is none. Exact:
// it follows each sum from its producer along the transfers.
NodeId first_unsound(const Graph& graph, const Choices& choices, const ById<NodeId, int>& chosen,
                     TransitionCostCache& prices);

// Adds tables between nodes and the producers of their operands that forbid most of these choices. They do not detect a
// sum of several operands of which each could be dense and none is, nor a sum that is reduced on one axis on its way
// and becomes Partial there again. Both are rarely cheap.
void forbid_masked_sums(const Graph& graph, const Choices& choices, LayoutProblem& problem);

}  // namespace karez::passes
