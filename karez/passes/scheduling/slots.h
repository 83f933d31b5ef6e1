// slots: chooses the number of slots of each register between segments, and the order in which each communicator runs
// its collectives.
#pragma once

#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Collectives with one key are one sequence: those along one axis of one mesh (the same in all its groups), and the
// transfers from one mesh to another.
struct CommunicatorKey {
  int from = 0, to = 0;  // indices in Graph::meshes
  int axis = -1;         // -1: transfers
  auto operator<=>(const CommunicatorKey&) const = default;
};
CommunicatorKey communicator_key(const Graph& graph, NodeId collective);

// By value, the slots of the register that carries it between segments: the numbers with the fewest bytes that make
// launches at most 3 % slower than the largest numbers would (karez/solve/slots, with a proof). A value that is filled
// once per launch may have up to `most` slots if another stream reads it; an input that is read ahead has at least two
// of these. A value that is filled for each micro-batch may have as many slots as there are micro-batches. In a steady
// state every segment runs one micro-batch after the other, so each takes as long as the busiest stream needs for its
// segments; slots may lengthen this time by 3 %. On stage i of a pipeline of p equal stages, values that its backward
// pass needs get p - i slots: acts nearer to the end go first, so forward and backward acts alternate. Fewer slots are
// enough if weight gradients, for which no other act waits, fill the gaps.
ById<ValueId, int> slot_counts(const Graph& graph, const Segmentation& segmentation, const CostTable& costs, int most);

// Fewer and fewer slots, for a plan that has too little memory for those of `slot_counts`. Each step is predicted to be
// no faster than the one before, and no value has more slots than in the step before. The last has one slot for
// everything.
std::vector<ById<ValueId, int>> fewer_slots(const Graph& graph, const Segmentation& segmentation,
                                            const CostTable& costs, int most);

// The slots with the predicted launch interval and the turns of collectives.
SlotAssignment assign_slots(const Graph& graph, const Segmentation& segmentation, const CostTable& costs,
                            ById<ValueId, int> slots);

}  // namespace karez::passes
