// Which worker thread serves which device.
#pragma once

#include <vector>

#include "karez/passes/namespace.h"

namespace karez::passes {

// By device, of which each is busy for so many seconds of a launch. The busiest goes first, each to the worker that has
// least to do so far (Graham's longest processing time); numbered in the order of devices. Devices in turn, 0 1 0 1
// ..., where that is as good: beyond a twentieth of the busiest worker's time. With {8, 1, 8, 1} and two workers: {0,
// 0, 1, 1}, where turns would leave the second worker with 2 of 18 seconds.
std::vector<int> device_workers(const std::vector<double>& seconds, int workers);

}  // namespace karez::passes
