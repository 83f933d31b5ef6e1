// Finds choices of layouts in which masked sums meet values that may not be finite, and adds tables that forbid them.
#pragma once

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard_tables.h"

namespace karez::passes {

// The first node that passes sums which must be dense and are not (see sum_rules.h); an invalid id if there is none.
// The result is exact, since each sum is followed from its producer along the transfers.
NodeId first_unsound(const Graph& graph, const Choices& choices, const ById<NodeId, int>& chosen,
                     TransitionCostCache& prices);

// Adds tables between nodes and the producers of their operands that forbid most of these choices. The tables do not
// detect a sum of several operands each of which could be dense and none of which is, nor a sum that is reduced on one
// axis on its way and becomes Partial on it again. Both cases are rarely cheap.
void forbid_masked_sums(const Graph& graph, const Choices& choices, LayoutProblem& problem);

}  // namespace karez::passes
