// The collapsed plan: one representative device's actors, run in virtual time to see in which order collectives become ready.
#pragma once

#include <vector>

#include "passes/compilation.h"

namespace karez::passes {

// Every box node that crosses devices, once for each of its acts, in the order in which they begin when one representative device runs the step with
// the cost table's times: a compute stream and a comm stream, the same Ports and the same picking rule as the engine. All ranks hold the same inputs,
// so all find the same order. A run that stalls is a compile error. `slots`: by value, of the register that carries it.
std::vector<NodeId> collective_sequence(const Graph& graph, const Segmented& cut, const ById<ValueId, int>& slots, const CostTable& costs);

}  // namespace karez::passes
