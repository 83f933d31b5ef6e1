// slots: how many copies each register between segments gets, and the order in which each communicator runs its collectives.
#pragma once

#include "passes/compilation.h"

namespace karez::passes {

// Collectives with one key run one sequence: those along one axis of one mesh (all its groups alike), and the transfers from one mesh to another.
struct CommunicatorKey {
  int from = 0, to = 0;  // indices in Graph::meshes
  int axis = -1;         // -1: transfers
  auto operator<=>(const CommunicatorKey&) const = default;
};
CommunicatorKey communicator_key(const Graph& graph, NodeId collective);

// By value, of the register that carries it between segments; `streams_meet`: of one that another stream takes.
ById<ValueId, int> slot_counts(const Graph& graph, const Streams& stream, const Segmented& cut, const CostTable& costs, int streams_meet);
Slotted slots(const Graph& graph, const Streams& stream, const Segmented& cut, const CostTable& costs, int streams_meet);

}  // namespace karez::passes
