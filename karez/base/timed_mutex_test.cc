// Tests of the mutex with a timeout.
#include "karez/base/timed_mutex.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace karez::base {
namespace {

TEST(TimedMutex, OneThreadAtATimeHoldsTheMutex) {
  TimedMutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 1000; ++i) {
        const std::unique_lock lock =
            t % 2 == 0 ? std::unique_lock(mutex) : std::unique_lock(mutex, std::chrono::hours(1));
        ASSERT_TRUE(lock);
        ++count;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(count, 4000);
}

TEST(TimedMutex, ALockThatTimesOutDoesNotAcquireTheMutex) {
  TimedMutex mutex;
  {
    const std::lock_guard guard(mutex);
    EXPECT_FALSE(std::unique_lock(mutex, std::chrono::milliseconds(1)));
    EXPECT_FALSE(std::unique_lock(mutex, std::chrono::milliseconds(-1)));
  }
  EXPECT_TRUE(std::unique_lock(mutex, std::chrono::milliseconds(0)));
  EXPECT_TRUE(std::unique_lock(mutex, std::chrono::milliseconds(0))) << "the lock above must have been released";
}

}  // namespace
}  // namespace karez::base
