// Reads the CPU clocks of a team's threads, which OpenMP keeps from kernel to kernel.
#include "karez/kernels/cpu/team_time.h"

#include <omp.h>
#include <pthread.h>
#include <time.h>

#include <optional>
#include <vector>

namespace karez::kernels {

namespace {

// The clocks of the other threads of a team, in the order of their numbers in OpenMP.
std::vector<clockid_t> clocks_of_others(int team) {
  std::vector<clockid_t> clocks(static_cast<std::size_t>(team - 1), CLOCK_THREAD_CPUTIME_ID);
  int threads = 1;
#pragma omp parallel num_threads(team)
  {
    const int number = omp_get_thread_num();
    if (number == 0) threads = omp_get_num_threads();
    else pthread_getcpuclockid(pthread_self(), &clocks[static_cast<std::size_t>(number - 1)]);
  }
  clocks.resize(static_cast<std::size_t>(threads - 1));  // OpenMP may start fewer threads than requested
  return clocks;
}

std::optional<std::int64_t> read(clockid_t clock) {
  timespec time = {};
  if (clock_gettime(clock, &time) != 0) return std::nullopt;  // the thread has ended
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

struct Others {
  int team = 1;
  std::vector<clockid_t> clocks;
};

}  // namespace

std::int64_t team_cpu_time(int team) {
  thread_local Others others;
  std::int64_t total = read(CLOCK_THREAD_CPUTIME_ID).value_or(0);
  if (team <= 1) return total;
  if (others.team < team) others = {team, clocks_of_others(team)};
  for (std::size_t i = 0; i < others.clocks.size() && i + 1 < static_cast<std::size_t>(team); ++i) {
    const std::optional<std::int64_t> time = read(others.clocks[i]);
    if (time) {
      total += *time;
    } else {  // OpenMP has replaced the threads; the next call finds the new ones
      others.team = 1;
      break;
    }
  }
  return total;
}

}  // namespace karez::kernels
