// Assigns each device to a worker thread.
#pragma once

#include <vector>

#include "karez/passes/namespace.h"

namespace karez::passes {

// Returns the worker of each device; `seconds` gives the time for which each device is busy in a launch. Devices are
// assigned in decreasing order of their time, each to the worker with the smallest load so far (Graham's longest
// processing time rule), and workers are numbered in the order of devices. The assignment is round-robin, 0 1 0 1 ...,
// unless assigning by load shortens the busiest worker's time by more than 5 %. Example: for {8, 1, 8, 1} and two
// workers the result is {0, 0, 1, 1}; round-robin would leave the second worker with 2 of 18 seconds.
std::vector<int> device_workers(const std::vector<double>& seconds, int workers);

}  // namespace karez::passes
