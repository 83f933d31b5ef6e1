// slots: how many copies each register between segments gets, and the order in which each communicator runs its collectives.
#pragma once

#include "passes/compilation.h"

namespace karez::passes {

// `streams_meet`: slots of a value that another stream takes.
Slotted slots(const Graph& graph, const Streams& stream, const Segmented& cut, const CostTable& costs, int streams_meet);

}  // namespace karez::passes
