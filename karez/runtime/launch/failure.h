// Handles acts whose work throws: the first error becomes the error of the launch, and the rest of the launch completes
// without running kernels.
#pragma once

#include <string>

#include "karez/base/error.h"
#include "karez/runtime/current_error.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

struct ActorState;
struct LaunchRecord;
struct LoadedPlan;

// Stores an error with the kind of `cause` in the act's launch, unless the launch already has an error. Throws the
// error if the launch is not running: then no thread waits for it, so the error must end the use of the session.
void fail_launch(LoadedPlan& loaded, const ActorState& actor, const Error& cause, const std::string& where);

// From this launch of the plan on, acts complete without running kernels, and their results are garbage. No other rank
// may mistake them for valid results. So collectives of these launches begin only when every rank has poisoned its part
// of the launch (Control::invalidate).
void poison_launches(LoadedPlan& loaded, const LaunchRecord& record, std::int64_t launch);
void release_launches(LoadedPlan& loaded, std::int64_t launch);  // call when every rank has poisoned the launch

}  // namespace karez::runtime
