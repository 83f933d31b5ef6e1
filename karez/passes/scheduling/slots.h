// slots: chooses the number of slots of each register between segments, and the order in which each communicator runs
// its collectives.
#pragma once

#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Collectives with equal keys form one sequence: those along one axis of one mesh (the same in all its groups), or the
// transfers from one mesh to another.
struct CommunicatorKey {
  int from = 0, to = 0;  // indices in Graph::meshes
  int axis = -1;         // -1 for transfers
  auto operator<=>(const CommunicatorKey&) const = default;
};
CommunicatorKey communicator_key(const Graph& graph, NodeId collective);

// Returns, by value, the slots of the register that carries the value between segments: the numbers with the fewest
// bytes that make launches at most 3 % slower than the largest numbers would (karez/solve/slots, with a proof). A value
// that is filled once per launch may have up to `max_slots` slots if another stream reads it; an input that is
// prefetched has at least two of these. A value that is filled for each micro-batch may have as many slots as there are
// micro-batches. In a steady state every segment runs one micro-batch after the other, so a micro-batch takes as long
// as the busiest stream needs for its segments; slots may lengthen this time by 3 %. On stage i of a pipeline of p
// equal stages, values that the backward pass of the stage needs get p - i slots: acts nearer to the end run first, so
// forward and backward acts alternate. Fewer slots are enough if weight gradients, for which no other act waits, fill
// the gaps.
ById<ValueId, int> slot_counts(const Graph& graph, const Segmentation& segmentation, const CostTable& costs,
                               int max_slots);

// Returns steps with decreasing slots, for a plan that has too little memory for the slots of `slot_counts`. No step is
// predicted to be faster than the previous one, and no value has more slots than in the previous step. In the last step
// every value has one slot.
std::vector<ById<ValueId, int>> fewer_slots(const Graph& graph, const Segmentation& segmentation,
                                            const CostTable& costs, int max_slots);

// Returns the slots with the predicted launch interval and the turns of collectives.
SlotAssignment assign_slots(const Graph& graph, const Segmentation& segmentation, const CostTable& costs,
                            ById<ValueId, int> slots);

}  // namespace karez::passes
