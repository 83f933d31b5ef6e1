// Predicts the interval between a program's launches before there is a plan, from the slowest cycle of waits.
#pragma once

#include <string>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

std::string microseconds(double seconds);  // "12.3 us"

// Returns the predicted seconds between launches that follow each other as closely as slots and variables allow, or 0
// if there are too many acts to compute this. The model uses the total time of the acts of each stream, not their
// order, so the result is a lower bound. `slots` gives the number of slots of each value.
double launch_interval(const Graph& graph, const Segmentation& segmentation, const ById<ValueId, int>& slots,
                       const CostTable& costs);

}  // namespace karez::passes
