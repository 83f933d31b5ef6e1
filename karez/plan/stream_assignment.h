// Which worker thread serves which stream.
#pragma once

#include "karez/plan/namespace.h"
#include "karez/plan/plan.h"

namespace karez::plan {

// At most `most` workers compute: a stream's worker counts modulo them. A worker that serves comm streams alone mostly
// waits for links, and takes no core from those: it is one more, behind those of the plan that compute.
//
//   workers  compute 0, comm 1; compute 2, comm 1       most 4: 0 3, 2 3     most 1: 0 1, 0 1
ById<StreamId, int> assign_streams(const Plan& plan, int most);

}  // namespace karez::plan
