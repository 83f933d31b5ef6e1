// Tests the times that threads wait for cores, and the contention that is detected from them.
#include "karez/device/cpu_contention.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "karez/base/text.h"

namespace karez::device {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

SchedTimes times(int ran, int waited) { return {milliseconds(ran), milliseconds(waited)}; }

class FakeThreads : public ::testing::Test {
 protected:
  FakeThreads() { std::filesystem::create_directories(root + "/proc/self/task"); }
  ~FakeThreads() override { std::filesystem::remove_all(root); }
  void thread(int number, const std::string& text) {
    const std::string folder = cat(root, "/proc/self/task/", number);
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/schedstat") << text;
  }
  void remove_thread(int number) { std::filesystem::remove_all(cat(root, "/proc/self/task/", number)); }

  const std::string root = cat(::testing::TempDir(), "/karez_core_waits_", getpid());  // tests run in parallel
};

TEST_F(FakeThreads, ThreadTimesAreThoseSinceThePreviousCall) {
  thread(7, "1000 50 3\n");
  thread(8, "2000 60 3\n");
  SchedTimesReader reader(root);
  thread(7, "1500 70 4\n");
  thread(8, "2001 65 4\n");
  auto since = reader.since_last();
  ASSERT_TRUE(since);
  EXPECT_EQ(since->ran, nanoseconds(501));
  EXPECT_EQ(since->waited, nanoseconds(20));
  since = reader.since_last();
  EXPECT_EQ(since->ran, nanoseconds(0));
  EXPECT_EQ(since->waited, nanoseconds(0));
}

TEST_F(FakeThreads, ThreadsCountFromTheSecondCallThatFindsThem) {
  thread(7, "1000 50 3\n");
  SchedTimesReader reader(root);
  thread(9, "5000 5000 1\n");  // a new thread
  thread(7, "1010 51 4\n");
  EXPECT_EQ(reader.since_last()->ran, nanoseconds(10));
  thread(9, "5004 5002 1\n");
  thread(7, "3 1 1\n");  // a new thread with the id of one that has ended
  EXPECT_EQ(reader.since_last()->ran, nanoseconds(4));
  remove_thread(9);
  thread(7, "5 2 1\n");
  const auto since = reader.since_last();
  EXPECT_EQ(since->ran, nanoseconds(2));
  EXPECT_EQ(since->waited, nanoseconds(1));
}

TEST_F(FakeThreads, ThreadTimesAreUnknownIfTheKernelDoesNotCountThem) {
  SchedTimesReader empty_reader(root);
  EXPECT_FALSE(empty_reader.since_last());
  thread(7, "");
  EXPECT_FALSE(empty_reader.since_last());
  EXPECT_FALSE(SchedTimesReader(root + "/nowhere").since_last());
}

TEST(SchedTimesReader, TimesOfThisProcessAreRead) {
  SchedTimesReader reader;
  if (!reader.since_last()) GTEST_SKIP() << "this kernel has no schedstat";
  std::atomic<bool> stop = false;
  std::vector<std::thread> busy;  // more threads than cores
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i)
    busy.emplace_back([&] {
      while (!stop) {}
    });
  reader.since_last();
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(milliseconds(300));
  const auto since = reader.since_last();
  const auto duration = std::chrono::steady_clock::now() - begin;
  stop = true;
  for (auto& thread : busy) thread.join();
  EXPECT_GT(since->ran, duration / 20);
  EXPECT_GT(since->waited, duration / 8);
  EXPECT_LT(since->waited, duration + duration / 2);
}

TEST(CpuContention, ContentionIsDetectedAtTheSecondUpdateWithWaits) {
  CpuContention contention;
  EXPECT_FALSE(contention.update(times(100, 50), milliseconds(100)));
  EXPECT_FALSE(contention.update(times(200, 1), milliseconds(100)))
      << "a single update with waits must not count as contention";
  EXPECT_FALSE(contention.update(times(100, 50), milliseconds(100)));
  EXPECT_TRUE(contention.update(times(100, 50), milliseconds(100)));
  EXPECT_TRUE(contention.contended());
}

TEST(CpuContention, AnIdleProcessHasNoContention) {
  CpuContention contention;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(contention.update({milliseconds(1), milliseconds(1)}, milliseconds(100)));
}

TEST(CpuContention, ContentionEndsAfterASecondWithoutWaits) {
  CpuContention contention;
  for (int i = 0; i < 2; ++i) contention.update(times(100, 50), milliseconds(100));
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(contention.update(times(200, 1), milliseconds(100))) << i;
  EXPECT_TRUE(contention.update(times(200, 40), milliseconds(100))) << "an update with waits must restart the second";
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(contention.update(times(200, 1), milliseconds(100))) << i;
  for (int i = 0; i < 50; ++i)
    EXPECT_TRUE(contention.update(times(0, 0), milliseconds(100))) << "an idle process gives no information";
  EXPECT_FALSE(contention.update(times(200, 1), milliseconds(100)));
}

}  // namespace
}  // namespace karez::device
