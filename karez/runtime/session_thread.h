// Reports whether the calling thread belongs to a session, and whether this process was forked from one with a session.
#pragma once

#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Marks the calling thread as one of a session: an `exit` that a kernel or a source calls on it ends no session,
// because ending would wait for that thread.
void note_session_thread();

// True if this process was forked: it does not have the threads of the parent's sessions, and mutexes that they held
// may be locked forever.
bool is_forked_child();

bool is_session_thread();
void watch_forks();  // call when a session is created; only the first call has an effect

}  // namespace karez::runtime
