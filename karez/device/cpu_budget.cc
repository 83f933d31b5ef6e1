// Reads the CPU budget from the affinity mask and from the cpu.max (cgroup 2) or cpu.cfs_* (cgroup 1) files of the
// group of this process and the groups above it.
#include "karez/device/cpu_budget.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "karez/base/error.h"
#include "karez/base/text.h"

namespace karez::device {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void lower_quota(double& quota, double limit) {
  if (limit > 0 && (quota == 0 || limit < quota)) quota = limit;
}

// Reads the group and all groups above it, because each may have a limit. `mount` is the mount point of the hierarchy,
// `group` a path such as "/a/b".
template <class Read> void walk_up(const std::string& mount, std::string group, Read read) {
  while (true) {
    read(mount + group);
    auto slash = group.rfind('/');
    if (slash == std::string::npos || group == "/") return;
    group.resize(slash);
  }
}

double cgroup_quota(const std::string& root) {
  double quota = 0;
  std::istringstream lines(read_text(root + "/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {  // "0::/group" (version 2) or "4:cpu,cpuacct:/group" (version 1)
    auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",", group = line.substr(second + 1);
    if (controllers == ",,") {
      walk_up(root + "/sys/fs/cgroup", group, [&](const std::string& folder) {
        std::string text = read_text(folder + "/cpu.max");
        if (!text.empty()) lower_quota(quota, parse_cpu_max(text));
      });
    } else if (controllers.find(",cpu,") != std::string::npos) {
      walk_up(root + "/sys/fs/cgroup/cpu", group, [&](const std::string& folder) {
        std::string time = read_text(folder + "/cpu.cfs_quota_us"), period = read_text(folder + "/cpu.cfs_period_us");
        if (time.empty() || period.empty() || time[0] == '-') return;
        lower_quota(quota, parse_cpu_max(cat(trim(time), " ", trim(period))));
      });
    }
  }
  return quota;
}

}  // namespace

double parse_cpu_max(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::string time;
  double period = 0;
  bool is_complete = static_cast<bool>(in >> time >> period);
  if (is_complete && time == "max") return 0;
  char* end = nullptr;
  double value = std::strtod(time.c_str(), &end);
  require(is_complete && *end == '\0' && value > 0 && period > 0, "cpu.max must have a quota and a period, got '",
          trim(text), "'");
  return value / period;
}

CpuBudget cpu_budget(const std::string& root) {
  CpuBudget budget;
  // The mask may be longer than cpu_set_t, so it is enlarged until the call accepts it.
  for (std::size_t bits = 1024; bits <= (1u << 20); bits *= 2) {
    cpu_set_t* set = CPU_ALLOC(bits);
    std::size_t bytes = CPU_ALLOC_SIZE(bits);
    CPU_ZERO_S(bytes, set);
    bool succeeded = sched_getaffinity(0, bytes, set) == 0;
    if (succeeded)
      for (std::size_t cpu = 0; cpu < bits; ++cpu)
        if (CPU_ISSET_S(cpu, bytes, set)) budget.cpus.push_back(static_cast<int>(cpu));
    CPU_FREE(set);
    if (succeeded) break;
  }
  if (budget.cpus.empty()) budget.cpus.push_back(0);
  budget.quota = cgroup_quota(root);
  budget.cores = static_cast<int>(budget.cpus.size());
  if (budget.quota > 0) budget.cores = std::min(budget.cores, std::max(1, static_cast<int>(std::ceil(budget.quota))));
  return budget;
}

namespace {

bool bind_thread(pid_t thread, std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) {
    if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
    CPU_SET(cpu, &set);
  }
  return sched_setaffinity(thread, sizeof(set), &set) == 0;
}

}  // namespace

bool bind_to_cpus(std::span<const int> cpus) { return bind_thread(0, cpus); }

bool bind_process_to_cpus(int process, std::span<const int> cpus) {
  bool bound = false;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(cat("/proc/", process, "/task"), error)) {
    // A thread that has ended meanwhile is not an error.
    bound |= bind_thread(static_cast<pid_t>(std::atoi(entry.path().filename().c_str())), cpus);
  }
  return bound && !error;
}

// On Linux each thread has a nice value of its own, and the main thread has the number of the process.
void lower_priority() {
  errno = 0;
  const int nice = getpriority(PRIO_PROCESS, static_cast<id_t>(getpid()));
  if (errno == 0) setpriority(PRIO_PROCESS, 0, std::min(nice + 5, 19));
}

std::vector<int> data_cpus(std::span<const int> cpus, int cores, int data_cores, int process, int processes) {
  const int all = static_cast<int>(cpus.size()), own = std::clamp(cores, 1, all), count = std::min(data_cores, own);
  // If there are not enough CPUs for all processes, each has CPUs of its own.
  const int end = own * processes <= all ? own * (process + 1) : own;
  return {cpus.begin() + (end - count), cpus.begin() + end};
}

double fair_core_share(std::span<const int> process, std::span<const std::vector<int>> all) {
  double out = 0;
  for (int cpu : process) {
    const auto users = std::count_if(all.begin(), all.end(), [&](const auto& cpus) {
      return std::find(cpus.begin(), cpus.end(), cpu) != cpus.end();
    });
    out += 1.0 / static_cast<double>(std::max<std::ptrdiff_t>(users, 1));
  }
  return out;
}

std::vector<std::vector<int>> assign_cpus(std::span<const int> cpus, std::span<const int> teams) {
  require(!cpus.empty(), "assign_cpus: there must be at least 1 CPU, got 0");
  std::vector<std::vector<int>> assigned;
  std::size_t next = 0;
  for (int team : teams) {
    auto& team_cpus = assigned.emplace_back();
    for (std::size_t i = 0; i < std::min<std::size_t>(static_cast<std::size_t>(std::max(team, 1)), cpus.size()); ++i)
      team_cpus.push_back(cpus[next++ % cpus.size()]);
  }
  return assigned;
}

}  // namespace karez::device
