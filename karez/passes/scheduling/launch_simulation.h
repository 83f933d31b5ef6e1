// The collapsed plan: one representative device's actors, run in virtual time to see in which order collectives become
// ready.
#pragma once

#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Seconds of one act of the segment on the device that has most to do.
double seconds_of(const Graph& graph, const Segment& segment, const CostTable& costs);

// What a launch does when one representative device of each placement runs the step with the cost table's times: a
// compute and a comm stream each, the same Ports and the same picking rule as the engine. All ranks hold the same
// inputs, so all find the same. A run that stalls is a compile error. `slots`: by value, of the register that carries
// it.
struct LaunchSimulation {
  std::vector<NodeId>
      collectives;     // every node that crosses devices, once for each of its acts, in the order in which they begin
  double seconds = 0;  // of the launch
};
LaunchSimulation simulate_launch(const Graph& graph, const Segmentation& segmentation, const ById<ValueId, int>& slots,
                                 const CostTable& costs);

}  // namespace karez::passes
