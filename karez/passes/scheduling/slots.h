// slots: how many copies each register between segments gets, and the order in which each communicator runs its
// collectives.
#pragma once

#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Collectives with one key run one sequence: those along one axis of one mesh (all its groups alike), and the transfers
// from one mesh to another.
struct CommunicatorKey {
  int from = 0, to = 0;  // indices in Graph::meshes
  int axis = -1;         // -1: transfers
  auto operator<=>(const CommunicatorKey&) const = default;
};
CommunicatorKey communicator_key(const Graph& graph, NodeId collective);

// By value, the slots of the register that carries it between segments: the cheapest in bytes that make launches no
// more than 3 % slower than the most slots would (karez/solve/slots, with a proof). What is filled once a launch may
// have up to `most` where another stream reads it, an input that is read ahead has no fewer than two of them. What
// micro-batches hand from one segment to another may have as many as there are micro-batches: in a steady state every
// segment works on one after the other, so each takes as long as the busiest stream needs for its segments, and that
// time is what slots may lengthen by 3 %. On stage i of a pipeline of p equal stages they are p - i for what its
// backward needs: then acts, the ones nearer to the end first, are one forward, one backward; fewer are enough where
// weight gradients, for which nobody waits, fill the gaps.
ById<ValueId, int> slot_counts(const Graph& graph, const Segmentation& segmentation, const CostTable& costs, int most);

// Ever fewer slots, for whoever has too little memory for those of `slot_counts`: each step is predicted to be no
// faster than the one before, and no value has more slots than in the step before. The last has one slot for
// everything.
std::vector<ById<ValueId, int>> fewer_slots(const Graph& graph, const Segmentation& segmentation,
                                            const CostTable& costs, int most);

// The slots with their pace and the turns.
SlotAssignment assign_slots(const Graph& graph, const Segmentation& segmentation, const CostTable& costs,
                            ById<ValueId, int> slots);

}  // namespace karez::passes
