// What sets the pace of a program's launches: the cycle of waits that a launch behind the other cannot beat.
#pragma once

#include <string>

#include "passes/compilation.h"

namespace karez::passes {

// A few lines for people: the predicted seconds between launches that follow each other as closely as slots and variables allow, and the acts on the
// cycle with what each waits for. Of a device's stream the sum of its acts counts, not their order, so the figure is a lower bound. `slots`: by
// value.
std::string critical_cycle(const Graph& graph, const Segmented& cut, const ById<ValueId, int>& slots, const CostTable& costs);

}  // namespace karez::passes
