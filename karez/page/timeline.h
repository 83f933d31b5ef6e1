// The drawable data of a launch in virtual time: lanes of acts, and bytes in use.
#pragma once

#include <vector>

#include "karez/page/namespace.h"
#include "karez/page/page.h"
#include "karez/runtime/simulator.h"

namespace karez::page {

// The acts of the launch, without those that run ahead for the next one. Streams without acts have no lane.
std::vector<Lane> lanes_of(const Plan& plan, const Simulation& run);

// A slot of a register lasts from the act that begins to fill it until its last consumer has acted, scratch as long as
// its act, the other blocks always. At most `most` spans of a device are listed, the largest.
ById<DeviceId, MemoryTimeline> memory_of(const Plan& plan, const Simulation& run, std::size_t most);

}  // namespace karez::page
