// Tests of the CPU time of teams, against kernels whose threads compute until their own clock has reached a time.
#include "karez/kernels/cpu/team_time.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <thread>

// GCC's implementation of "#pragma omp parallel", because tests are compiled without OpenMP.
extern "C" void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);

namespace karez::kernels {
namespace {

constexpr std::int64_t ms = 1'000'000;

std::int64_t own_time() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

// Each thread of a team computes for `each` ns of its own CPU time.
void compute(int team, std::int64_t each) {
  GOMP_parallel(
      [](void* each) {
        const std::int64_t end = own_time() + *static_cast<std::int64_t*>(each);
        while (own_time() < end) {}
      },
      &each, static_cast<unsigned>(team), 0);
}

// The CPU time that `team` threads need for 20 ms each, as a clock of a team of `counted` threads shows it.
std::int64_t measured(int team, int counted) {
  const std::int64_t begin = team_cpu_time(counted);
  compute(team, 20 * ms);
  return team_cpu_time(counted) - begin;
}

int granted(int team) { return std::min(team, omp_get_thread_limit()); }  // one under ThreadSanitizer

TEST(TeamCpuTime, IsTheSumOverTheThreadsOfTheTeam) {
  for (const int team : {1, 2, 3, 2, 4, 1}) {
    compute(team, 0);
    const std::int64_t time = measured(team, team);
    EXPECT_GE(time, granted(team) * 20 * ms) << "team " << team;
  }
}

TEST(TeamCpuTime, OfOneThreadExcludesTheOthers) {
  if (granted(2) < 2) GTEST_SKIP() << "OMP_THREAD_LIMIT allows no teams";
  compute(2, 0);
  const std::int64_t team = team_cpu_time(2), own = team_cpu_time(1);
  compute(2, 20 * ms);
  const std::int64_t own_used = team_cpu_time(1) - own, team_used = team_cpu_time(2) - team;
  EXPECT_GE(own_used, 20 * ms);
  EXPECT_GE(team_used, own_used + 20 * ms);
}

TEST(TeamCpuTime, CountsTheThreadsOfTheCallerAlone) {
  compute(2, 0);
  const std::int64_t begin = team_cpu_time(2);
  std::thread([] {
    compute(2, 20 * ms);
    EXPECT_GE(measured(2, 2), granted(2) * 20 * ms);
  }).join();
  EXPECT_LT(team_cpu_time(2) - begin, 20 * ms) << "the team of another thread is counted";
}

// A smaller team ends threads of the larger one, so their clocks cannot be read any more.
TEST(TeamCpuTime, FindsTheThreadsThatReplaceEndedOnes) {
  compute(4, 0);
  team_cpu_time(4);
  compute(2, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until the two threads have ended
  team_cpu_time(4);
  EXPECT_GE(measured(4, 4), granted(4) * 20 * ms);
}

}  // namespace
}  // namespace karez::kernels
