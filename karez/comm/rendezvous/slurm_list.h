// Slurm lists: Slurm's abbreviated lists of hosts, "gpu[01-03,07],login", and of task counts, "2(x3),1".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "karez/comm/namespace.h"

namespace karez::comm {

struct SlurmHosts {
  std::string first;       // "gpu01"
  std::int64_t count = 0;  // 5
};
SlurmHosts parse_slurm_hosts(std::string_view text);  // throws Error (kind user) if the text is invalid

int slurm_tasks_of(std::string_view text, int node);  // ("2(x3),1", 3) -> 1; throws if the list has no such node

}  // namespace karez::comm
