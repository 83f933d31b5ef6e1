// The assignment of streams to worker threads.
#pragma once

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

// Returns the worker of each stream. At most `max_workers` workers compute: the worker number of a stream is taken
// modulo `max_workers`. A worker that serves only comm streams mostly waits for links and occupies no core. It is an
// additional worker, numbered after those that compute.
//
// Example: the plan assigns the streams of one device to workers {compute: 0, comm: 1} and those of another to
// {compute: 2, comm: 1}. With max_workers = 4 this function returns {0, 3} and {2, 3}; with max_workers = 1 it returns
// {0, 1} and {0, 1}.
ById<StreamId, int> assign_streams(const Plan& plan, int max_workers);

}  // namespace karez::plan
