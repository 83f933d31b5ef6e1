// How many micro-batches may be under way between two actors: the cheapest slots that keep the slowest stage busy.
#pragma once

#include "passes/compilation.h"

namespace karez::passes {

// Raises the slots of values that micro-batches hand from one segment to another. In a steady state every segment works on one micro-batch after the
// other, so a micro-batch takes as long as the busiest stream needs for its segments; the slots are the cheapest ones in bytes that do not make it
// more than 5 % longer (solve/slots, with a proof). On stage i of a pipeline of p equal stages that is p - i for what its backward needs: then acts,
// the ones nearer to the end first, are one forward, one backward; fewer are enough where weight gradients, for which nobody waits, fill the gaps.
void raise_micro_slots(const Graph& graph, const Segmented& cut, const CostTable& costs, ById<ValueId, int>& slots);

}  // namespace karez::passes
