// The slots pass: chooses the number of slots of each register between segments, and the order in which each
// communicator runs its collectives.
#pragma once

#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Collectives with equal keys form one sequence. These are the collectives along one axis of one mesh (all groups of
// the axis have the same sequence), or the transfers from one mesh to another.
struct CommunicatorKey {
  int from = 0, to = 0;  // indices in Graph::meshes
  int axis = -1;         // -1 for transfers
  auto operator<=>(const CommunicatorKey&) const = default;
};
CommunicatorKey communicator_key(const Graph& graph, NodeId collective);

// Returns, for each value, the number of slots of the register that carries it between segments. Of all choices that
// make launches at most 3 % slower than the largest allowed numbers would, cheapest_slots (karez/solve/slots.h) finds
// the one with the fewest bytes. A value that is filled once per launch may have up to `max_slots` slots if another
// stream reads it. An input that is prefetched has at least two slots, if `max_slots` allows it. A value that is filled
// for each micro-batch may have as many slots as there are micro-batches.
//
// In the steady state of a launch, every segment runs one micro-batch after another, so a micro-batch takes as long as
// the busiest stream needs for its segments. Slots may lengthen this time by 3 % too. On stage i (from 0) of a pipeline
// of p equal stages, values that the backward pass of the stage needs get p - i slots: acts nearer to the end run
// first, so forward and backward acts alternate. Fewer slots are enough if weight gradients, for which no other act
// waits, fill the gaps.
ById<ValueId, int> slot_counts(const Graph& graph, const Segmentation& segmentation, const CostTable& costs,
                               int max_slots);

// Returns a list of choices with fewer and fewer slots, for a plan that has too little memory for those of
// `slot_counts`. No choice is predicted to be faster than the previous one, and no value has more slots than in the
// previous choice. In the last choice every value has one slot.
std::vector<ById<ValueId, int>> fewer_slots(const Graph& graph, const Segmentation& segmentation,
                                            const CostTable& costs, int max_slots);

// Returns `slots` together with the predicted launch interval and the turns of collectives.
SlotAssignment assign_slots(const Graph& graph, const Segmentation& segmentation, const CostTable& costs,
                            ById<ValueId, int> slots);

}  // namespace karez::passes
