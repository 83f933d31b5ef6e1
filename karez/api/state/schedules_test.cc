// Tests of learning-rate schedules.
#include <gtest/gtest.h>

#include <cmath>

#include "karez/api/optim.h"

namespace karez {
namespace {

TEST(Schedules, EachScheduleFollowsItsFormula) {
  auto half = optim::step_schedule(0.8, 10, 0.5);
  EXPECT_EQ(half(0), 0.8);
  EXPECT_EQ(half(9), 0.8);
  EXPECT_EQ(half(25), 0.2);
  auto cosine = optim::cosine_schedule(1, 110, 10, 0.1);
  EXPECT_EQ(cosine(0), 0);
  EXPECT_DOUBLE_EQ(cosine(5), 0.5);
  EXPECT_DOUBLE_EQ(cosine(10), 1);
  EXPECT_NEAR(cosine(60), 0.55, 1e-12);
  EXPECT_NEAR(cosine(85), 0.1 + 0.9 * (1 + std::cos(0.75 * M_PI)) / 2, 1e-12);
  EXPECT_NEAR(cosine(110), 0.1, 1e-12);
  EXPECT_NEAR(cosine(1000), 0.1, 1e-12);
  auto linear = optim::linear_schedule(2, 10);
  EXPECT_DOUBLE_EQ(linear(0), 2);
  EXPECT_DOUBLE_EQ(linear(5), 1);
  EXPECT_DOUBLE_EQ(linear(11), 0);
  EXPECT_EQ(optim::constant_schedule(3)(7), 3);
  EXPECT_THROW(optim::cosine_schedule(1, 10, 10), Error);
  EXPECT_THROW(optim::step_schedule(1, 0, 0.5), Error);
}

}  // namespace
}  // namespace karez
