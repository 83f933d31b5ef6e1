// What happens when an act's work throws: the first error is the launch's, and the rest of the launch completes without
// working.
#pragma once

#include <string>

#include "karez/base/error.h"
#include "karez/runtime/namespace.h"

namespace karez::runtime {

struct ActorState;
struct LaunchRecord;
struct LoadedPlan;

// What follows the error of a launch that failed while it wrote variables.
std::string torn_text();

// Inside a catch block: what was thrown, whatever its type. Memory that ran out is the device's fault, another
// library's exception the user's.
Error current_error();

// The act's launch gets the error, if it is its first one, with the cause's kind. Throws itself if that launch does not
// run: then nobody waits for the error, and the session must break.
void fail_launch(LoadedPlan& loaded, const ActorState& actor, const Error& cause, const std::string& where);

// From this launch of the plan on, acts complete without working. What they should have made is garbage, which no other
// rank may take for a result: collectives of these launches begin only when every rank has been told and has poisoned
// its own part of the launch (Agreement::spoil).
void poison_launches(LoadedPlan& loaded, const LaunchRecord& record, std::int64_t launch);
void release_launches(LoadedPlan& loaded, std::int64_t launch);  // every rank has

}  // namespace karez::runtime
