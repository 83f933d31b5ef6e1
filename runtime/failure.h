// What happens when an act's work throws: the first error is the launch's, and the rest of the launch completes without working.
#pragma once

#include <string>

#include "base/error.h"

namespace karez::runtime {

struct ActorState;
struct Loaded;

// Inside a catch block: what was thrown, whatever its type. Memory that ran out is the device's fault, another library's exception the user's.
Error thrown();

// The act's launch gets the error, if it is its first one, with the cause's kind. Throws itself if that launch does not run: then nobody waits for
// the error, and the session must break.
void fail_launch(Loaded& loaded, const ActorState& actor, const Error& cause, const std::string& where);

}  // namespace karez::runtime
