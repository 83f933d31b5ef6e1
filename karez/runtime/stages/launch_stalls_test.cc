// Tests of the stalls before the launches of a plan.
#include "karez/runtime/stages/launch_stalls.h"

#include <gtest/gtest.h>

namespace karez::runtime {
namespace {

TEST(LaunchStalls, TheFirstLaunchOnlyBeginsTheTime) {
  LaunchStalls stalls;
  EXPECT_EQ(stalls.text(1e-3), "");
  stalls.add(1000, 500);
  EXPECT_EQ(stalls.text(1e-3), "");
  stalls.add(3000, 40);
  EXPECT_EQ(
      stalls.text(1e-3),
      "the devices waited for data for 0.040 s of 2.000 s (2.0 %) in 2 launches, before the last ones for 40.0 ms");
}

TEST(LaunchStalls, TheLastTenAreListed) {
  LaunchStalls stalls;
  stalls.add(0, 99);
  for (int i = 1; i <= 12; ++i) stalls.add(100 * i, i);
  EXPECT_EQ(stalls.text(1e-4),
            "the devices waited for data for 0.008 s of 0.120 s (6.5 %) in 13 launches, before the last ones for 0.3, "
            "0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2 ms");
}

TEST(LaunchStalls, LaunchesAtTheSameTimeHaveNoShare) {
  LaunchStalls stalls;
  stalls.add(5, 0);
  stalls.add(5, 0);
  EXPECT_EQ(
      stalls.text(1),
      "the devices waited for data for 0.000 s of 0.000 s (0.0 %) in 2 launches, before the last ones for 0.0 ms");
}

}  // namespace
}  // namespace karez::runtime
