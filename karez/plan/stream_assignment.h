// The assignment of streams to worker threads.
#pragma once

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

// At most `max_workers` workers compute: the worker number of a stream is taken modulo `max_workers`. A worker that
// serves only comm streams mostly waits for links and occupies no core: it is an additional worker, numbered after
// those that compute.
//
// Two devices with (compute 0, comm 1) and (compute 2, comm 1): workers (0, 3) and (2, 3) of 4, (0, 1) and (0, 1) of 1.
ById<StreamId, int> assign_streams(const Plan& plan, int max_workers);

}  // namespace karez::plan
