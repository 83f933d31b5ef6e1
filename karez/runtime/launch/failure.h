// Handles an act whose work throws: the first error becomes the error of the launch, and the rest of the launch
// completes without running kernels.
#pragma once

#include <string>

#include "karez/base/error.h"
#include "karez/runtime/current_error.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

struct ActorState;
struct LaunchRecord;
struct LoadedPlan;

// Stores the error, with the cause's kind, in the act's launch, unless that has an earlier error. Throws the error if
// the launch does not run: then no waiter would receive the error, and the session must break.
void fail_launch(LoadedPlan& loaded, const ActorState& actor, const Error& cause, const std::string& where);

// From this launch of the plan on, acts complete without running kernels. Their results are garbage, which no other
// rank may take for valid: collectives of these launches begin only when every rank has poisoned its own part of the
// launch (Control::invalidate).
void poison_launches(LoadedPlan& loaded, const LaunchRecord& record, std::int64_t launch);
void release_launches(LoadedPlan& loaded, std::int64_t launch);  // call when every rank has poisoned it

}  // namespace karez::runtime
