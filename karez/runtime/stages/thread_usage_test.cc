// Whether a thread notices that it waited, that it was preempted, and how long it computed.
#include "karez/runtime/stages/thread_usage.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "karez/device/cpu_budget.h"
#include "karez/device/cpu_contention.h"

namespace karez::runtime {
namespace {

using Clock = std::chrono::steady_clock;

TEST(ThreadSwitches, AWaitIsNoPreemption) {
  ThreadSwitches switches;
  for (int i = 0; i < 20; ++i) {
    switches.update();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_FALSE(switches.only_preempted());
  }
}

// Of two threads that compute on one core, each is preempted.
TEST(ThreadSwitches, ASharedCoreIsNoticed) {
  const std::vector<int> core = {device::cpu_budget().cpus.front()};
  const auto compute = [&core](bool& preempted) {
    if (!device::bind_to_cpus(core)) return;
    ThreadSwitches switches;
    switches.update();
    const auto end = Clock::now() + std::chrono::seconds(20);
    while (!preempted && Clock::now() < end) preempted = switches.only_preempted();
    for (const auto rest = Clock::now() + std::chrono::milliseconds(100); Clock::now() < rest;) {}
  };
  bool first = false, second = false;
  std::thread other(compute, std::ref(first)), thread(compute, std::ref(second));
  other.join(), thread.join();
  EXPECT_TRUE(first && second);
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

TEST(ThreadUsage, SleepIsNoComputation) {
  for (const bool queued : {false, true}) {
    const ThreadUsage before = thread_usage(queued);
    const auto begin = Clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_LT(computing_seconds(before, seconds_since(begin), queued), 0.01);
    while (thread_usage().cpu_seconds - before.cpu_seconds < 0.005) continue;
    const double seconds = seconds_since(begin), computing = computing_seconds(before, seconds, queued);
    EXPECT_GE(computing, 0.005);
    EXPECT_LT(computing, seconds - 0.01);
  }
}

TEST(ThreadUsage, AnActWithoutAWaitComputesAllTheTime) {
  const ThreadUsage before = thread_usage();
  EXPECT_EQ(computing_seconds(before, 3), 3);
}

// Two threads compute on one core, and sleep once.
TEST(ThreadUsage, TheTimeInTheQueueForACoreIsNoWait) {
  if (device::SchedTimesReader times; !times.since_last()) GTEST_SKIP() << "this kernel has no schedstat";
  const std::vector<int> core = {device::cpu_budget().cpus.front()};
  struct Times {
    double seconds = 0, computing = 0, on_core = 0;
  };
  const auto compute = [&core](Times& times) {
    if (!device::bind_to_cpus(core)) return;
    const ThreadUsage before = thread_usage(true);
    const auto begin = Clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    while (thread_usage().cpu_seconds - before.cpu_seconds < 0.1) continue;
    times.seconds = seconds_since(begin);
    times.computing = computing_seconds(before, times.seconds, true);
    times.on_core = thread_usage().cpu_seconds - before.cpu_seconds;
  };
  Times first, second;
  std::thread other(compute, std::ref(first)), thread(compute, std::ref(second));
  other.join(), thread.join();
  for (const Times& times : {first, second}) {
    EXPECT_GT(times.computing, 0.7 * times.seconds);
    EXPECT_LE(times.computing, times.seconds);
  }
  EXPECT_GT(first.computing + second.computing, 1.4 * (first.on_core + second.on_core));
}

}  // namespace
}  // namespace karez::runtime
