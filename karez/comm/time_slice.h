// Time slices of threads that often wait: for a message, or for the other threads of a team.
#pragma once

#include "karez/comm/namespace.h"

namespace karez::comm {

// Requests from the kernel that this thread runs as soon as it is woken, even if another thread computes on its core:
// in slices of a tenth of a millisecond, within its share. Threads that it starts later inherit this. It needs no
// privilege; it has no effect on Linux before 6.12.
void request_short_time_slice();

}  // namespace karez::comm
