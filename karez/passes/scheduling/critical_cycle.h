// What sets the pace of a program's launches as the planner reckons, before there is a plan: the cycle of waits that
// one after the other cannot beat.
#pragma once

#include <string>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

std::string microseconds(double seconds);  // "12.3 us"

// Predicted seconds between launches that follow each other as closely as slots and variables allow; 0: not looked for,
// there are too many acts. Of a device's stream the sum of its acts counts, not their order, so the figure is a lower
// bound. `slots`: by value.
double launch_interval(const Graph& graph, const Segmentation& segmentation, const ById<ValueId, int>& slots,
                       const CostTable& costs);

}  // namespace karez::passes
