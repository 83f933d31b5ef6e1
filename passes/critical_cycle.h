// What sets the pace of a program's launches: the cycle of waits that a launch behind the other cannot beat.
#pragma once

#include <string>

#include "passes/compilation.h"

namespace karez::passes {

struct CriticalCycle {
  double seconds = 0;  // predicted, between launches that follow each other as closely as slots and variables allow; 0: not looked for
  std::string text;    // a few lines for people: that figure, and the acts on the cycle with what each waits for
};

std::string microseconds(double seconds);  // "12.3 us"

// Of a device's stream the sum of its acts counts, not their order, so the figure is a lower bound. `slots`: by value.
CriticalCycle critical_cycle(const Graph& graph, const Segmented& cut, const ById<ValueId, int>& slots, const CostTable& costs);

}  // namespace karez::passes
