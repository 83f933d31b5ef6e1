// Tests of the cores on which data threads and worker processes run, and of their choice while a program reads.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <vector>

#include "karez/data/stages/stage_scope.h"
#include "karez/device/cpu_budget.h"
#include "karez/runtime/stages/dataset_reader.h"
#include "karez/runtime/ticks.h"

namespace karez::runtime {
namespace {

using namespace std::chrono_literals;
using data::Element;
using data::range;

TEST(DataThreadsCores, ThreadsMoveToOtherCores) {
  const std::vector<int> all = device::cpu_budget().cpus;
  DataThreads pool(3);
  std::atomic<int> number{0}, checked{0};
  const std::vector<std::vector<int>> choices = {all, {all.back()}, {all.front()}, all};
  DatasetReader reader(range(1000).map(
                           [&](const Element& e) {
                             const int before = number;
                             const std::vector<int> cpus = device::cpu_budget().cpus;
                             if (before == number && before >= 0) {
                               EXPECT_EQ(cpus, choices[static_cast<std::size_t>(before)]);
                               ++checked;
                             }
                             return e;
                           },
                           {3}),
                       pool);
  reader.start();
  for (int i = 0; i < 1000; ++i) {
    if (i > 0 && i % 250 == 0) {
      const int next = i / 250;
      number = -1;
      pool.set_cores(next == 3 ? std::vector<int>{} : choices[static_cast<std::size_t>(next)], 0);
    }
    if (i % 250 == 100) number = i / 250;  // acts that had begun, on the old cores, have ended
    EXPECT_TRUE(reader.next());
  }
  EXPECT_GT(checked, 600);
}

TEST(DataThreadsCores, WorkerProcessesMoveToo) {
  const std::vector<int> all = device::cpu_budget().cpus;
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  const auto cpus_of_child = [&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    EXPECT_EQ(sched_getaffinity(child, sizeof set, &set), 0);
    return CPU_COUNT(&set) == 1 ? std::vector<int>{CPU_ISSET(all.back(), &set) ? all.back() : -1} : all;
  };
  DataThreads pool(2);
  DatasetReader reader(range(60).map(
                           [&](const Element& e) {
                             data::remote_time() = {.ns = 1000, .cpu_ns = 500, .process = child};
                             return e;
                           },
                           {2}),
                       pool);
  reader.start();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(reader.next());
  EXPECT_EQ(cpus_of_child(), all);
  pool.set_cores({all.back()}, 0);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(reader.next());
  EXPECT_EQ(cpus_of_child(), std::vector<int>{all.back()});
  pool.set_cores({}, 0);
  while (reader.next()) continue;
  EXPECT_EQ(cpus_of_child(), all);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// The stages of each stream compute for less time than a measurement takes.
TEST(DataThreadsCores, StagesOfStreamsThatHaveEndedCount) {
  DataThreads pool(2);
  pool.choose_cores(2);
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (pool.wanted_cores() == 0 && pool.tries_cores() && std::chrono::steady_clock::now() < end) {
    DatasetReader reader(range(40).map([](const Element& e) {
      const auto until = std::chrono::steady_clock::now() + 5ms;
      while (std::chrono::steady_clock::now() < until) continue;
      return e;
    }),
                         pool);
    reader.start();
    while (reader.next()) {
      pool.idle_clock()->launched(ticks());
      pool.idle_clock()->ended(ticks());
    }
  }
  EXPECT_EQ(pool.wanted_cores(), 1) << "the stages use a core";
}

}  // namespace
}  // namespace karez::runtime
