// Of choices of layouts: where they let masked sums meet what may not be finite, and the tables that forbid it.
#pragma once

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard_tables.h"

namespace karez::passes {

// The first node that passes sums which must be dense and are not (see sum_rules.h); invalid where there is none.
// Exact: it follows each sum from where it is made, along the transfers between.
NodeId first_unsound(const Graph& graph, const Choices& choices, const ById<NodeId, int>& chosen,
                     TransitionCostCache& prices);

// Adds tables between nodes and the producers of their operands that forbid most of that. What they do not see: a sum
// of several operands of which each could be dense and none is, and a sum that is added up on one axis on its way and
// comes apart there again. Both are rarely cheap.
void forbid_masked_sums(const Graph& graph, const Choices& choices, LayoutProblem& problem);

}  // namespace karez::passes
