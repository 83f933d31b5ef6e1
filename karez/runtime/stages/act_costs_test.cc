// When the acts of a stage count as short.
#include "karez/runtime/stages/act_costs.h"

#include <gtest/gtest.h>

namespace karez::runtime {
namespace {

ActCosts after(int count, std::int64_t time) {
  ActCosts costs(100);
  for (int i = 0; i < count; ++i) costs.add(time);
  return costs;
}

TEST(ActCosts, AStageIsShortOnlyAfterSixteenActs) {
  EXPECT_FALSE(ActCosts(100).is_short());
  EXPECT_FALSE(after(15, 1).is_short());
  EXPECT_TRUE(after(16, 1).is_short());
}

TEST(ActCosts, TheMeanMustBeBelowTheLimit) {
  EXPECT_TRUE(after(50, 99).is_short());
  EXPECT_FALSE(after(50, 100).is_short());
  EXPECT_TRUE(after(50, 0).is_short());
}

TEST(ActCosts, RareLongActsCountByTheirShareOfTheTime) {
  ActCosts costs = after(900, 4);  // 3,600 in total
  costs.add(400);                  // not more than four times the limit
  EXPECT_TRUE(costs.is_short());
  costs.add(500);  // an eighth of 4,500 is 562
  EXPECT_TRUE(costs.is_short());
  costs.add(500);
  EXPECT_FALSE(costs.is_short());
}

TEST(ActCosts, ToMeasureActsTakesASmallShareOfTheirTime) {
  EXPECT_EQ(after(15, 1).measure_interval(), 1);  // not known yet
  EXPECT_EQ(after(16, 0).measure_interval(), 64);
  EXPECT_EQ(after(50, 1).measure_interval(), 64);
  EXPECT_EQ(after(50, 100).measure_interval(), 16);
  EXPECT_EQ(after(50, 400).measure_interval(), 4);
  EXPECT_EQ(after(50, 1600).measure_interval(), 1);
  EXPECT_EQ(after(50, 1'000'000).measure_interval(), 1);
}

TEST(ActCosts, AStageThatReadsAFileFromTimeToTimeIsNotShort) {
  ActCosts costs(100);
  for (int i = 0; i < 10'000; ++i) costs.add(i % 1000 == 999 ? 50'000 : 1);
  EXPECT_FALSE(costs.is_short());
}

TEST(ActCosts, OlderActsAreForgotten) {
  ActCosts costs = after(1000, 1000);
  for (int i = 0; i < 8 * 1024; ++i) costs.add(10);
  EXPECT_TRUE(costs.is_short());
  for (int i = 0; i < 1024; ++i) costs.add(1000);
  EXPECT_FALSE(costs.is_short());
}

TEST(ActCosts, AnActMayDecide) {
  for (std::int64_t last : {99, 100}) {
    ActCosts costs(100);
    for (int i = 0; i < 15; ++i) costs.add(100);
    costs.add(last);
    EXPECT_EQ(costs.is_short(), last == 99);
  }
}

}  // namespace
}  // namespace karez::runtime
