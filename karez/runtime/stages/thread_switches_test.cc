// Whether a thread notices that it waited, or that it was preempted.
#include "karez/runtime/stages/thread_switches.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "karez/device/cpu_budget.h"

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

}  // namespace
}  // namespace karez::runtime
