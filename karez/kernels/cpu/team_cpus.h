// Where a worker's thread and the team of its kernels run.
#pragma once

#include <span>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

// Binds the calling thread, and the team of as many threads that its kernels will use, to these cpus. Threads of a team
// live on from kernel to kernel and keep the cpus they began with, so binding the caller alone would not move them.
void bind_team(std::span<const int> cpus);

}  // namespace karez::kernels
