// The one CPU budget of a process: how many cores it may really use, by affinity and by its cgroup's quota.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "karez/device/namespace.h"

namespace karez::device {

struct CpuBudget {
  std::vector<int> cpus;  // that the affinity mask allows
  double quota = 0;       // cores' worth of time per period that the cgroup grants; 0: no limit
  int cores = 1;          // what to plan with: min(cpus, quota rounded up), at least 1
};

// `root` stands for "/" (tests give another).
CpuBudget cpu_budget(const std::string& root = "");

// "max 100000" -> 0, "150000 100000" -> 1.5; anything else is an error.
double parse_cpu_max(std::string_view text);

// Binds the calling thread to these cpus, on any of which it may then run; says whether that worked.
bool bind_to_cpus(std::span<const int> cpus);

// For each team, in order, as many of the cpus as it has threads (all, if there are fewer): disjoint where there are
// enough for all teams.
// ({0, 1, 2, 3}, {2, 1}) -> {0, 1}, {2}; ({0, 1}, {2, 1}) -> {0, 1}, {0}.
std::vector<std::vector<int>> assign_cpus(std::span<const int> cpus, std::span<const int> teams);

// How many cores a process may reckon with beside others of its job on one host, each with the cpus that it may run on,
// its own among them: a cpu that k of them have counts a k-th. Below 1 they are crowded. ({0, 1}, {{0, 1}, {1, 2}})
// -> 1.5
double fair_core_share(std::span<const int> own, std::span<const std::vector<int>> all);

}  // namespace karez::device
