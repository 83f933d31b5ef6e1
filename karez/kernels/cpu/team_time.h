// The CPU time of the threads of a team, for profiles.
#pragma once

#include <cstdint>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

// Returns the CPU time in ns that the calling thread and the other threads of its team of this size have used since
// they started. The time includes spinning while threads of the team wait for each other. The first call of a thread
// for a larger team runs the team to find its threads. A call takes about half a microsecond per thread.
std::int64_t team_cpu_time(int team);

}  // namespace karez::kernels
