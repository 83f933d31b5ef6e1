// The CPU budget of a process: the number of cores that it may use, according to its affinity mask and the quota of its
// cgroup.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "karez/device/namespace.h"

namespace karez::device {

struct CpuBudget {
  std::vector<int> cpus;  // the CPUs that the affinity mask allows
  double quota = 0;       // quota of the cgroup, in cores; 0 means no limit
  int cores = 1;          // cores to plan with: min(cpus, quota rounded up), at least 1
};

// `root` replaces "/" in tests.
CpuBudget cpu_budget(const std::string& root = "");

// Parses a quota: "max 100000" -> 0, "150000 100000" -> 1.5. Throws for any other text.
double parse_cpu_max(std::string_view text);

// Binds the calling thread to these CPUs: it may run on any of them. Returns whether the system accepted the binding.
bool bind_to_cpus(std::span<const int> cpus);

// The same for all threads of a process.
bool bind_process_to_cpus(int process, std::span<const int> cpus);

// Gives the calling thread a nice value that is 5 above that of the process's main thread (at most 19), so that threads
// of the main thread's priority run first where both need a core. Threads that it starts later inherit the value.
// Without effect under real-time policies.
void lower_priority();

// Assigns to each team, in order, one CPU per thread, or all CPUs if there are fewer. The sets are disjoint if there
// are enough CPUs for all teams: ({0, 1, 2, 3}, {2, 1}) -> {0, 1}, {2}; ({0, 1}, {2, 1}) -> {0, 1}, {0}.
std::vector<std::vector<int>> assign_cpus(std::span<const int> cpus, std::span<const int> teams);

// The CPUs of the data threads of a process, which plans with `cores` cores and leaves `data_cores` of them to data
// threads: the last ones of its cores, or none if `data_cores` is 0. Processes 0, 1, ..., `processes` - 1 of a host
// that may run on the same CPUs get different ones. Example: ({0, ..., 7}, 4, 1, 1, 2) -> {7}
std::vector<int> data_cpus(std::span<const int> cpus, int cores, int data_cores, int process, int processes);

// Returns the number of cores that a process can expect if the other processes of its job on the host are busy. `all`
// holds the CPUs of each process, including this one; a CPU of k processes counts as 1 / k. If the result is below
// 1, processes compete for cores. Example: ({0, 1}, {{0, 1}, {1, 2}}) -> 1.5
double fair_core_share(std::span<const int> process, std::span<const std::vector<int>> all);

}  // namespace karez::device
