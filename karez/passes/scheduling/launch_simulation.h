// Runs the actors of representative devices in virtual time, to find the order in which collectives begin.
#pragma once

#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Seconds of one act of the segment on the device with the most work.
double seconds_of(const Graph& graph, const Segment& segment, const CostTable& costs);

// The result of a simulated launch, in which one representative device of each placement runs the step with the times
// of the cost table. Each device has a compute and a comm stream, and the same Ports and the same rule for the next
// actor as the engine. All ranks have the same inputs, so all get the same result. A launch that stalls is a compile
// error. `slots` has for each value the slots of the register that carries it.
struct LaunchSimulation {
  std::vector<NodeId>
      collectives;     // every node that crosses devices, once for each of its acts, in the order of their beginnings
  double seconds = 0;  // duration of the launch
};
LaunchSimulation simulate_launch(const Graph& graph, const Segmentation& segmentation, const ById<ValueId, int>& slots,
                                 const CostTable& costs);

}  // namespace karez::passes
