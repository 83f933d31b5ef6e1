// Tests of the clock of the time without launches.
#include "karez/runtime/idle_clock.h"

#include <gtest/gtest.h>

namespace karez::runtime {
namespace {

TEST(IdleClock, TimeBeforeTheFirstLaunchDoesNotCount) {
  IdleClock clock;
  EXPECT_EQ(clock.idle(1000), 0);
  EXPECT_EQ(clock.launches(), 0);
  clock.launched(1000);
  EXPECT_EQ(clock.idle(5000), 0);
  EXPECT_EQ(clock.launches(), 1);
}

TEST(IdleClock, TheTimesBetweenLaunchesAreAdded) {
  IdleClock clock;
  clock.launched(100);
  clock.launched(110);  // while the first one runs
  EXPECT_EQ(clock.launches(), 2);
  clock.ended(150);
  EXPECT_EQ(clock.idle(150), 0);
  EXPECT_EQ(clock.idle(157), 7);
  clock.ended(160);  // it is idle already
  EXPECT_EQ(clock.idle(170), 20);
  clock.launched(180);
  EXPECT_EQ(clock.idle(500), 30);
  clock.ended(1000);
  EXPECT_EQ(clock.idle(1000), 30);
  EXPECT_EQ(clock.idle(1005), 35);
  clock.launched(1010);
  EXPECT_EQ(clock.idle(9999), 40);
  EXPECT_EQ(clock.launches(), 4);
}

TEST(IdleClock, HasALaunchFromItsBeginningToTheEndOfAllLaunches) {
  IdleClock clock;
  EXPECT_FALSE(clock.has_launch());
  clock.launched(0);  // at the time 0, as later
  EXPECT_TRUE(clock.has_launch());
  clock.launched(5);
  EXPECT_TRUE(clock.has_launch());
  clock.ended(10);
  EXPECT_FALSE(clock.has_launch());
  clock.launched(20);
  EXPECT_TRUE(clock.has_launch());
}

TEST(IdleClock, TheClockMayEndBeforeItsFirstLaunch) {
  IdleClock clock;
  clock.ended(50);  // the end of a failed launch of an earlier session
  EXPECT_EQ(clock.idle(60), 10);
  clock.launched(70);
  EXPECT_EQ(clock.idle(90), 20);
}

TEST(IdleClock, LargeTimesAreExact) {
  constexpr std::int64_t years = std::int64_t{3'000'000'000} * 86'400 * 365 * 10;
  IdleClock clock;
  clock.launched(years);
  clock.ended(years + 1);
  EXPECT_EQ(clock.idle(years + 4), 3);
  clock.launched(years + 8);
  EXPECT_EQ(clock.idle(2 * years), 7);
}

}  // namespace
}  // namespace karez::runtime
