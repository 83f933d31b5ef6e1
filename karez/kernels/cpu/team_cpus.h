// Binds a worker's thread and the team of its kernels to CPUs.
#pragma once

#include <span>

#include "karez/kernels/namespace.h"

namespace karez::kernels {

// Binds the calling thread to these CPUs, and also the team that its kernels will use, which has one thread for each
// CPU. The threads of a team persist from kernel to kernel and keep their CPUs, so binding only the caller would not
// bind them.
void bind_team(std::span<const int> cpus);

}  // namespace karez::kernels
