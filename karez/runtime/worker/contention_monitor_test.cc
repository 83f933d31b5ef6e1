// Tests that the contention monitor detects other programs on the cores of this process.
#include "karez/runtime/worker/contention_monitor.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "karez/base/text.h"
#include "karez/device/cpu_contention.h"

namespace karez::runtime {
namespace {

TEST(ContentionMonitor, TheMonitorDetectsMoreThreadsThanCores) {
  if (device::SchedTimesReader waits; !waits.since_last()) GTEST_SKIP() << "this kernel has no schedstat";
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const ContentionMonitor monitor(cores);
  EXPECT_FALSE(monitor.crowded());
  std::atomic<bool> stop = false;
  std::vector<std::thread> busy_threads;
  for (int i = 0; i < 2 * cores; ++i)
    busy_threads.emplace_back([&] {
      while (!stop) {}
    });
  const auto begin = std::chrono::steady_clock::now();
  while (!monitor.crowded() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(20))
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(monitor.crowded());
  EXPECT_EQ(monitor.times(), 1);
  stop = true;
  for (auto& thread : busy_threads) thread.join();
}

// The fake schedstat file of a thread that always runs. While `waits` is set, the file reports as much waiting time as
// running time.
class FakeThread {
 public:
  FakeThread() {
    std::filesystem::create_directories(folder_);
    write(0, 0);
    clock_ = std::thread([this] {  // real time: the test passes on a busy machine too
      std::chrono::nanoseconds ran{}, waited{};
      for (auto last = std::chrono::steady_clock::now(); !stop_;
           std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
        const auto now = std::chrono::steady_clock::now();
        ran += now - last;
        waited += waits ? now - last : std::chrono::nanoseconds(0);
        last = now;
        write(ran.count(), waited.count());
      }
    });
  }
  ~FakeThread() {
    stop_ = true;
    clock_.join();
    std::filesystem::remove_all(root);
  }

  const std::string root = cat(::testing::TempDir(), "/karez_contention_monitor_", getpid());
  std::atomic<bool> waits = false;

 private:
  void write(std::int64_t ran, std::int64_t waited) {  // atomically, by renaming
    std::ofstream(root + "/next") << ran << " " << waited << " 1\n";
    std::filesystem::rename(root + "/next", folder_ + "/schedstat");
  }

  const std::string folder_ = root + "/proc/self/task/7";
  std::atomic<bool> stop_ = false;
  std::thread clock_;
};

TEST(ContentionMonitor, ContentionEndsWhenTheOtherProgramsStop) {
  FakeThread thread;
  const ContentionMonitor monitor(2, thread.root);
  const auto reaches = [&](bool crowded) {
    for (int i = 0; i < 2000 && monitor.crowded() != crowded; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return monitor.crowded() == crowded;
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_FALSE(monitor.crowded());
  for (int round = 1; round <= 2; ++round) {
    thread.waits = true;
    EXPECT_TRUE(reaches(true));
    EXPECT_EQ(monitor.times(), round);
    thread.waits = false;
    EXPECT_TRUE(reaches(false));
  }
}

TEST(ContentionMonitor, TheMonitorStopsOnAKernelWithoutSchedstat) {
  const ContentionMonitor monitor(2, ::testing::TempDir() + "/karez_nowhere");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(monitor.crowded());
}

// Returns the number of threads of this process that have the monitor's name.
int count_monitor_threads() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    count += name == ContentionMonitor::thread_name;
  }
  return count;
}

TEST(ContentionMonitor, TheThreadOfTheMonitorHasItsName) {
  EXPECT_EQ(count_monitor_threads(), 0);
  const ContentionMonitor monitor(2);
  for (int i = 0; i < 500 && count_monitor_threads() != 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(count_monitor_threads(), 1);
}

TEST(ContentionMonitor, TheMonitorIsDestroyedWithoutDelay) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) const ContentionMonitor monitor(2);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5))
      << "the destructor must not wait for the next check";
}

}  // namespace
}  // namespace karez::runtime
