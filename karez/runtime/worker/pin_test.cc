// Tests of the threads of workers and teams: pinned workers share no cores, a team may use as many cores as it has
// threads, and all threads have short time slices.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "karez/comm/time_slice.h"
#include "karez/device/cpu_budget.h"
#include "karez/kernels/cpu/team.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"

namespace karez::runtime {
namespace {

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> out;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return out;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) out.push_back(cpu);
  return out;
}

// Returns the number of threads that a team gets. OMP_THREAD_LIMIT may reduce it (to one under ThreadSanitizer); then
// the existing threads also do the parts of the missing ones.
int granted(int team) { return std::min(team, omp_get_thread_limit()); }

// The report of a thread of a team, which it makes while the kernel runs.
struct ThreadReport {
  pid_t thread;
  int runs_on;
  std::vector<int> allowed;
  std::int64_t time_slice;  // time slice in ns; 0: the kernel's default, as before Linux 6.12
};
std::int64_t own_time_slice() {
  std::int64_t attributes[6] = {};  // size and policy, flags, nice value, time slice, two others; see sched_getattr(2)
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, attributes, sizeof attributes, 0), 0);
  return attributes[3];
}
struct Report {
  std::mutex mutex;
  std::vector<ThreadReport> threads;
  // A kernel whose threads wait for each other before they report, so that no thread does the parts of two.
  KernelRow row() {
    return test_row("report", [this](const CallSpec& c) -> PreparedKernel {
      return [this, team = c.team, granted = granted(c.team)](const KernelArgs&) {
        std::atomic<int> arrived{0};
        kernels::parallel_for(team, team, 1, [&](std::int64_t, std::int64_t, int) {
          ++arrived;
          auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
          while (arrived < granted && std::chrono::steady_clock::now() < until) sched_yield();
          std::lock_guard lock(mutex);
          threads.push_back({gettid(), sched_getcpu(), allowed_cpus(), own_time_slice()});
        });
      };
    });
  }
};

// One actor on each worker, each with a kernel of the given team size.
Plan report_plan(int workers, int team) {
  PlanBuilder s;
  for (int w = 0; w < workers; ++w) {
    ActorId a = s.actor(cat("a", w), w);
    s.start(a);
    s.done(a);
    s.call(a, "test.report", {}, {});
    s.plan.actors[a].calls[0].team = team;
  }
  return s.plan;
}

TEST(Pin, ATeamMayRunOnAsManyCoresAsItHasThreads) {
  const std::vector<int> all = cpu_budget().cpus;
  const auto cores = static_cast<int>(all.size());
  // On one core the threads of a team of two may only run on that core, pinned or not. On three or more cores a team
  // grows by one thread while the other threads keep their old binding.
  const int team = std::clamp(cores, 2, 3);
  const std::vector<int> expected(all.begin(), all.begin() + std::min(team, cores));
  for (int before : {0, team - 1}) {
    Report report;
    KernelTable table({report.row()});
    Session session({.workers = 1, .pin = true}, table);
    if (before > 0) session.launch(session.load(report_plan(1, before))).wait();  // the worker was bound to fewer cores
    int plan = session.load(report_plan(1, team));
    report.threads.clear();
    session.launch(plan).wait();
    std::set<pid_t> threads;
    for (const ThreadReport& thread : report.threads) {
      threads.insert(thread.thread);
      EXPECT_EQ(thread.allowed, expected) << "thread " << thread.thread;
      EXPECT_EQ(std::count(expected.begin(), expected.end(), thread.runs_on), 1)
          << "thread " << thread.thread << " runs on " << thread.runs_on;
    }
    EXPECT_EQ(static_cast<int>(threads.size()), granted(team));
  }
  EXPECT_EQ(allowed_cpus(), all) << "the affinity of the client's thread must not change";
}

// A thread that requests a short time slice gets it if the kernel supports it.
TEST(ShortTimeSlice, TheTimeSliceIsSetForAllThreadsOfATeam) {
  std::int64_t requested = 0;
  std::thread([&] {
    comm::request_short_time_slice();
    requested = own_time_slice();
  }).join();
  Report report;
  KernelTable table({report.row()});
  Session session({.workers = 2}, table);
  session.launch(session.load(report_plan(2, 2))).wait();
  ASSERT_EQ(static_cast<int>(report.threads.size()), 4);
  for (const ThreadReport& thread : report.threads)
    EXPECT_EQ(thread.time_slice, requested) << "thread " << thread.thread;
  EXPECT_TRUE(requested == 0 || own_time_slice() != requested)
      << "the time slice of the client's thread must not change";
}

TEST(Pin, EachWorkerWithTeamsOfOneThreadHasItsOwnCore) {
  const std::vector<int> all = cpu_budget().cpus;
  Report report;
  KernelTable table({report.row()});
  Session session({.workers = 2, .pin = true}, table);
  session.launch(session.load(report_plan(2, 1))).wait();
  ASSERT_EQ(report.threads.size(), 2u);
  // A session has at most as many workers as cores: on one core, one worker runs both actors.
  std::set<pid_t> threads{report.threads[0].thread, report.threads[1].thread};
  EXPECT_EQ(threads.size(), std::min<std::size_t>(2, all.size()));
  std::set<int> used;
  for (const ThreadReport& thread : report.threads) {
    EXPECT_EQ(thread.allowed.size(), 1u);
    used.insert(thread.allowed.begin(), thread.allowed.end());
  }
  EXPECT_EQ(used.size(), threads.size());
}

}  // namespace
}  // namespace karez::runtime
