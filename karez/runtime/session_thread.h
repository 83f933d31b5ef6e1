// Reports whether the calling thread belongs to a session, and whether this process was forked after a session was
// created.
#pragma once

#include "karez/runtime/namespace.h"

namespace karez::runtime {

// Marks the calling thread as a thread of a session. If a kernel or a source calls `exit` on it, no session is ended,
// because ending would wait for this thread.
void note_session_thread();

// Marks the calling thread while it does the work of a session.
class SessionThreadScope {
 public:
  SessionThreadScope();
  ~SessionThreadScope();
  SessionThreadScope(const SessionThreadScope&) = delete;
  SessionThreadScope& operator=(const SessionThreadScope&) = delete;

 private:
  const bool marked_before_;
};

// True in a process that was forked after `watch_forks`. Such a process lacks the threads of the parent's sessions, and
// mutexes that these threads held may stay locked forever.
bool is_forked_child();

bool is_session_thread();
void watch_forks();  // call when a session is created; only the first call has an effect

}  // namespace karez::runtime
