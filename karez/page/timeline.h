// A launch in virtual time as what can be drawn: lanes of acts, and bytes in use.
#pragma once

#include <vector>

#include "karez/page/namespace.h"
#include "karez/page/page.h"
#include "karez/runtime/simulator.h"

namespace karez::page {

// The launch's own acts; those that run ahead of the next one are left out. Streams on which nothing acts have no lane.
std::vector<Lane> lanes_of(const Plan& plan, const Simulation& run);

// A slot of a register from the act that begins to fill it until its last reader has acted; scratch while its act
// lasts; the other blocks always. At most `most` of a device are listed, the largest.
ById<DeviceId, MemoryTimeline> memory_of(const Plan& plan, const Simulation& run, std::size_t most);

}  // namespace karez::page
