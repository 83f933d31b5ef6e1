// Threads that wait for others in between: for a message, or for the other threads of a team.
#pragma once

#include "karez/comm/namespace.h"

namespace karez::comm {

// Asks the kernel to let this thread run as soon as it is woken, though another one computes on its core: in turns of a
// tenth of a millisecond, and no more of them than its share. Threads that it starts later do the same. Takes no
// privilege; Linux before 6.12 does not know it, and then nothing changes.
void request_short_time_slice();

}  // namespace karez::comm
