// Tests of polling before a thread sleeps.
#include "karez/runtime/spin_wait.h"

#include <gtest/gtest.h>

namespace karez::runtime {
namespace {

TEST(SpinWait, PollsUntilTheConditionIsTrue) {
  int calls = 0;
  EXPECT_TRUE(spin_until(1'000'000'000'000, [&] { return ++calls == 5; }));
  EXPECT_EQ(calls, 5);
}

TEST(SpinWait, PollsAtLeastOnceAndAtMostForTheLimit) {
  int calls = 0;
  EXPECT_FALSE(spin_until(-1, [&] { return ++calls < 0; }));
  EXPECT_EQ(calls, 1);
  const std::int64_t begin = ticks();
  EXPECT_FALSE(spin_until(1000, [] { return false; }));
  EXPECT_GT(ticks() - begin, 1000);
}

TEST(SpinWait, AfterAWaitInVainTheNextOnesGoWithout) {
  SpinPolicy policy;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(policy.next());
    policy.add(true);
  }
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(policy.next());
    policy.add(false);
    for (int i = 0; i < 31; ++i) EXPECT_FALSE(policy.next());
  }
}

}  // namespace
}  // namespace karez::runtime
