// Ends all open sessions when the process exits, so that their threads end before the libraries that they call are
// destroyed.
#pragma once

#include "karez/runtime/namespace.h"

namespace karez::runtime {

class Session;

// Registers the session. When the process exits, each registered session that is still open ends gracefully. If the
// main thread calls `exit` or returns from `main`, this is the first step of the exit. If another thread calls `exit`,
// only library objects that were created before the last call of this function outlive the session; so call it after
// every load of a plan.
void end_at_exit(Session& session);
void forget_at_exit(Session& session);

}  // namespace karez::runtime
