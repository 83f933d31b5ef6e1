// Time slices: short ones for threads that often wait for a message, or for the other threads of a team.
#pragma once

#include "karez/comm/namespace.h"

namespace karez::comm {

// Requests from the kernel that this thread runs as soon as it is woken, even if another thread computes on its core:
// in slices of a tenth of a millisecond, within its share. Threads that this thread starts later inherit the request.
// It needs no privilege; it has no effect on Linux before 6.12.
void request_short_time_slice();

}  // namespace karez::comm
