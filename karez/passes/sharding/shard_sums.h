// Finds choices of layouts in which masked sums meet values that may not be finite, and adds tables that forbid them.
#pragma once

#include "karez/passes/namespace.h"
#include "karez/passes/sharding/shard_tables.h"

namespace karez::passes {

// Returns the first node that passes sums which must be dense but are not (see sum_rules.h); an invalid id if there is
// none. The result is exact, since each sum is followed from its producer along the transfers.
NodeId first_unsound(const Graph& graph, const Choices& choices, const ById<NodeId, int>& chosen,
                     TransitionCostCache& prices);

// Adds tables between nodes and the producers of their operands that forbid most of these choices. The tables do not
// detect two cases, which are rarely cheap: several operands of which none is dense although each could be, and a sum
// that is reduced on an axis and then becomes Partial on the same axis again.
void forbid_masked_sums(const Graph& graph, const Choices& choices, LayoutProblem& problem);

}  // namespace karez::passes
