// The CPU budget of a process: the number of cores that it may use, by its affinity mask and its cgroup's quota.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "karez/device/namespace.h"

namespace karez::device {

struct CpuBudget {
  std::vector<int> cpus;  // allowed by the affinity mask
  double quota = 0;       // cores of time per period that the cgroup grants; 0: no limit
  int cores = 1;          // cores to plan with: min(cpus, quota rounded up), at least 1
};

// `root` replaces "/" in tests.
CpuBudget cpu_budget(const std::string& root = "");

// "max 100000" -> 0, "150000 100000" -> 1.5; anything else is an error.
double parse_cpu_max(std::string_view text);

// Binds the calling thread to these CPUs, on any of which it may then run; returns whether that worked.
bool bind_to_cpus(std::span<const int> cpus);

// For each team, in order, one CPU per thread (all CPUs, if there are fewer); the sets are disjoint if there are enough
// CPUs for all teams.
// ({0, 1, 2, 3}, {2, 1}) -> {0, 1}, {2}; ({0, 1}, {2, 1}) -> {0, 1}, {0}.
std::vector<std::vector<int>> assign_cpus(std::span<const int> cpus, std::span<const int> teams);

// The cores that a process may expect next to the other processes of its job on one host. `all` has the CPUs of each
// process, including its own: a CPU that k processes have counts 1 / k. Below 1 the processes compete for cores.
// ({0, 1}, {{0, 1}, {1, 2}}) -> 1.5
double fair_core_share(std::span<const int> own, std::span<const std::vector<int>> all);

}  // namespace karez::device
