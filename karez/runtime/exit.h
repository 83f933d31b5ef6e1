// What a process does on its way out with sessions that still live: their threads end before the libraries that they
// call are torn down.
#pragma once

#include "karez/runtime/namespace.h"

namespace karez::runtime {

class Session;

// When the process exits, the session ends well, if it has not ended before. Where the main thread calls `exit`, or
// returns from `main`, that comes before everything else. Where another thread does, it comes before what libraries
// tear down that was made before the last call of this: so it is called after every load of a plan.
void end_at_exit(Session& session);
void forget_at_exit(Session& session);

// Of a thread of a session: an `exit` that a kernel or a source calls on it ends no session, which would wait for that
// thread.
void note_session_thread();

// Whether this process was forked from one that had a session: the threads stayed there, and what they guarded may be
// locked for ever.
bool is_forked_child();

}  // namespace karez::runtime
