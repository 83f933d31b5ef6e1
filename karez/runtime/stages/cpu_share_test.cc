// Tests of the part of the time in which acts compute.
#include "karez/runtime/stages/cpu_share.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace karez::runtime {
namespace {

TEST(CpuShare, IsUnknownBeforeTheFirstAct) {
  CpuShare share;
  EXPECT_FALSE(share.share());
  share.add(0, 10);
  EXPECT_EQ(share.share(), 0.0);
  share.add(30, 30);
  EXPECT_EQ(share.share(), 0.75);
}

TEST(CpuShare, IsAtMostOne) {
  CpuShare share;
  share.add(12, 10);
  EXPECT_EQ(share.share(), 1.0);
}

TEST(CpuShare, ShortActsAreMeasuredOnceIn64) {
  CpuShare share;
  int measured = 0;
  for (int i = 0; i < 640; ++i) measured += share.is_due(true);
  EXPECT_EQ(measured, 10);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(share.is_due(false));
}

TEST(CpuShare, OldActsHaveLessWeight) {
  CpuShare share;
  for (int i = 0; i < 10'000; ++i) share.add(0, 1e7);  // 100 s
  for (int i = 0; i < 1000; ++i) share.add(1e7, 1e7);  // 10 s
  EXPECT_GT(*share.share(), 0.9);
}

TEST(CpuShare, TheClockCountsComputationButNotSleep) {
  const double begin = thread_cpu_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double slept = thread_cpu_ns();
  EXPECT_LT(slept - begin, 10e6);
  while (thread_cpu_ns() - slept < 5e6) continue;
  EXPECT_GE(thread_cpu_ns() - begin, 5e6);
}

}  // namespace
}  // namespace karez::runtime
