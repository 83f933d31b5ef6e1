// Tests of the part of the time in which acts compute.
#include "karez/runtime/stages/cpu_share.h"

#include <gtest/gtest.h>

namespace karez::runtime {
namespace {

TEST(CpuShare, IsUnknownBeforeTheFirstAct) {
  CpuShare share;
  EXPECT_FALSE(share.share());
  share.add(0, 0.01);
  EXPECT_EQ(share.share(), 0.0);
  share.add(0.03, 0.03);
  EXPECT_EQ(share.share(), 0.75);
}

TEST(CpuShare, IsAtMostOne) {
  CpuShare share;
  share.add(12, 10);
  EXPECT_EQ(share.share(), 1.0);
}

TEST(CpuShare, OneActInAnIntervalIsDue) {
  CpuShare share;
  int measured = 0;
  for (int i = 0; i < 640; ++i) measured += share.is_due(64);
  EXPECT_EQ(measured, 10);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(share.is_due(1));
}

TEST(CpuShare, OldActsHaveLessWeight) {
  CpuShare share;
  for (int i = 0; i < 10'000; ++i) share.add(0, 0.01);
  for (int i = 0; i < 1000; ++i) share.add(0.01, 0.01);
  EXPECT_GT(*share.share(), 0.9);
}

}  // namespace
}  // namespace karez::runtime
