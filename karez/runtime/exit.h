// Ends the sessions that still exist when the process exits: their threads end before the libraries that they call are
// destroyed.
#pragma once

#include "karez/runtime/namespace.h"

namespace karez::runtime {

class Session;

// When the process exits, the session ends gracefully if it has not ended before. If the main thread calls `exit` or
// returns from `main`, this is the first step of the exit. If another thread calls `exit`, the session ends before the
// destruction of library objects that were created before the last call of this function; so call it after every load
// of a plan.
void end_at_exit(Session& session);
void forget_at_exit(Session& session);

}  // namespace karez::runtime
