// The drawings of a simulated launch: lanes of acts, and bytes in use.
#pragma once

#include <vector>

#include "karez/report/namespace.h"
#include "karez/report/plan_report.h"
#include "karez/runtime/simulator.h"

namespace karez::report {

// Returns the acts of the launch, without those that run ahead for the next launch. Streams without acts have no lane.
std::vector<Lane> lanes_of(const Plan& plan, const Simulation& run);

// Returns the times in which bytes are in use: a slot of a register from the act that begins to fill it until its last
// consumer has acted, scratch as long as its act, the other blocks always. At most the `max_spans` largest spans of a
// device are listed.
ById<DeviceId, MemoryTimeline> memory_of(const Plan& plan, const Simulation& run, std::size_t max_spans);

}  // namespace karez::report
