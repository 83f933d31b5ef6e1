// Requests short time slices for threads that often wait for messages or for the other threads of their team.
#pragma once

#include "karez/comm/namespace.h"

namespace karez::comm {

// Asks the kernel for time slices of 0.1 ms, so that this thread runs as soon as it is woken, even if another thread
// computes on its core. The thread's share of CPU time does not change. Threads that it starts later inherit the
// request. The request needs no privilege, and has no effect on Linux before 6.12.
void request_short_time_slice();

}  // namespace karez::comm
