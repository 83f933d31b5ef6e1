// The data of the drawings of a simulated launch: lanes of acts, and memory in use.
#pragma once

#include <vector>

#include "karez/report/namespace.h"
#include "karez/report/plan_report.h"
#include "karez/runtime/simulator.h"

namespace karez::report {

// Returns a lane for each stream that has acts, without the acts that run ahead for the next launch.
std::vector<Lane> lanes_of(const Plan& plan, const Simulation& run);

// Returns when and where memory is in use. A slot of a register is in use from the act that begins to fill it until its
// last consumer has acted, scratch memory during its act, and other blocks always. At most the `max_spans` largest
// spans of a device are listed.
ById<DeviceId, MemoryTimeline> memory_of(const Plan& plan, const Simulation& run, std::size_t max_spans);

}  // namespace karez::report
