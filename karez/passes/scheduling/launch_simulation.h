// Runs the actors of representative devices in virtual time, to find the order in which collectives begin.
#pragma once

#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Returns the seconds that one act of the segment takes on the device with the most work.
double seconds_of(const Graph& graph, const Segment& segment, const CostTable& costs);

// The result of a simulated launch. In it, one representative device of each placement runs the step with the times of
// the cost table. Actors use the same Ports as in the engine, and each stream chooses its next actor by the same rule.
// All ranks simulate the same inputs, so all get the same result.
struct LaunchSimulation {
  // Every node that crosses devices, once for each of its acts, in the order in which the acts begin.
  std::vector<NodeId> collectives;
  double seconds = 0;  // duration of the launch
};
// Throws if the launch stalls. `slots` gives, for each value, the number of slots of the register that carries it.
LaunchSimulation simulate_launch(const Graph& graph, const Segmentation& segmentation, const ById<ValueId, int>& slots,
                                 const CostTable& costs);

}  // namespace karez::passes
