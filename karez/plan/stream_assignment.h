// The assignment of streams to worker threads.
#pragma once

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

// At most `most` workers compute: the worker number of a stream is taken modulo `most`. A worker that serves only comm
// streams mostly waits for links and occupies no core: it is an additional worker, numbered after those that compute.
//
//   workers  compute 0, comm 1; compute 2, comm 1       most 4: 0 3, 2 3     most 1: 0 1, 0 1
ById<StreamId, int> assign_streams(const Plan& plan, int most);

}  // namespace karez::plan
