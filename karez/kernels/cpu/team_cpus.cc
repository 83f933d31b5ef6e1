// Binds a worker's thread and the team of its kernels to CPUs. Each thread of the team binds itself.
#include "karez/kernels/cpu/team_cpus.h"

#include "karez/device/cpu_budget.h"
#include "karez/kernels/cpu/team.h"

namespace karez::kernels {

void bind_team(std::span<const int> cpus) {
  bind_to_cpus(cpus);
  auto team = static_cast<int>(cpus.size());
  parallel_for(team, team, 1, [&](std::int64_t, std::int64_t, int) { bind_to_cpus(cpus); });
}

}  // namespace karez::kernels
