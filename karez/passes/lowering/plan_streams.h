// The devices and streams of a plan, with the worker thread that serves each stream.
#pragma once

#include <vector>

#include "karez/passes/compilation.h"
#include "karez/passes/namespace.h"

namespace karez::passes {

// Adds the own devices of this rank, a compute and a comm stream for each device, and the stream of the host.
void add_devices_and_streams(const Compilation& c, const std::vector<DeviceName>& own_devices, Plan& plan);

// Returns the stream of this kind on an own device. The device is ignored for the host.
StreamId stream_of(const Plan& plan, int device, StreamKind kind);

}  // namespace karez::passes
