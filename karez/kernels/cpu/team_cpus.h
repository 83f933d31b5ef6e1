// Binds a worker's thread and the team of its kernels to CPUs.
#pragma once

#include <span>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

// Binds the calling thread and the team that its kernels will use, with one thread for each CPU, to these CPUs. Threads
// of a team persist from kernel to kernel and keep their CPUs, so binding only the caller would not bind them.
void bind_team(std::span<const int> cpus);

}  // namespace karez::kernels
