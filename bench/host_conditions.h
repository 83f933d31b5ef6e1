// Measures conditions of the host that affect a benchmark: the distance between two cores, and the load of other
// processes. The round trip of a cache line shows whether two cores share a cache. In a virtual machine, this may
// change while a benchmark runs.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "bench/namespace.h"

namespace karez::bench {

inline std::vector<int> own_cpus() {
  cpu_set_t set;
  std::vector<int> out;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return out;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) out.push_back(cpu);
  return out;
}

// Returns the seconds of a cache line's round trip between the first two CPUs of this process: the fastest of many
// rounds, or 0 if there is only one CPU.
inline double cache_line_round_trip() {
  constexpr int rounds = 20, trips = 100;
  const std::vector<int> cpus = own_cpus();
  if (cpus.size() < 2) return 0;
  struct alignas(128) Line {
    std::atomic<int> turn{0};
  } line;
  double fastest_round = INFINITY;
  auto exchange = [&](int player) {
    cpu_set_t cpu_set;
    CPU_ZERO(&cpu_set);
    CPU_SET(cpus[static_cast<std::size_t>(player)], &cpu_set);
    sched_setaffinity(0, sizeof cpu_set, &cpu_set);
    int turn = player;
    for (int round = 0; round < rounds; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      for (int trip = 0; trip < trips; ++trip, turn += 2) {
        while (line.turn.load(std::memory_order_acquire) != turn) {
#if defined(__x86_64__)
          __builtin_ia32_pause();
#endif
        }
        line.turn.store(turn + 1, std::memory_order_release);
      }
      if (player == 0)
        fastest_round = std::min(
            fastest_round, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / trips);
    }
  };
  std::thread first(exchange, 0), second(exchange, 1);
  first.join(), second.join();
  return fastest_round;
}

// Measures how many cores other processes, and the host of a virtual machine, have used since construction. `cores`
// returns 0 if there is no /proc/stat.
class OtherProcesses {
 public:
  double cores() const {
    const CpuTimes now;
    return std::max(0.0, (now.total_seconds - begin_.total_seconds) - (now.own_seconds - begin_.own_seconds)) /
           std::max(now.wall - begin_.wall, 1e-9);
  }

 private:
  struct CpuTimes {
    double total_seconds = 0, own_seconds = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;  // CPU seconds
    double wall = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    CpuTimes() {
      std::ifstream stat("/proc/stat");
      std::string word;
      stat >> word;
      double ticks = 0;  // user, nice, system, idle, iowait, irq, softirq, steal
      for (int column = 0; column < 8 && stat >> ticks; ++column)
        if (column != 3 && column != 4) total_seconds += ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
    }
  };
  CpuTimes begin_;
};

}  // namespace karez::bench
