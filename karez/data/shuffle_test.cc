// Tests of the shuffle: known answers, permutations, independence of epochs, uniformity.
#include "karez/data/shuffle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace karez::data {
namespace {

std::vector<std::int32_t> shuffled(std::size_t count, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int32_t> order(count, -1);
  shuffle(order, seed, epoch);
  return order;
}

TEST(Shuffle, KnownAnswersHoldOnEveryMachine) {
  EXPECT_THAT(shuffled(8, 1, 0), ::testing::ElementsAre(3, 1, 7, 6, 5, 2, 4, 0));
  EXPECT_THAT(shuffled(8, 1, 1), ::testing::ElementsAre(1, 4, 7, 2, 6, 5, 3, 0));
  EXPECT_THAT(shuffled(8, 2, 0), ::testing::ElementsAre(6, 0, 1, 5, 4, 3, 7, 2));
}

TEST(Shuffle, AShuffleIsAPermutationOfAnyLength) {
  for (std::size_t count : {0u, 1u, 2u, 3u, 1000u, 60000u}) {
    auto order = shuffled(count, 3, 5);
    std::sort(order.begin(), order.end());
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(order[i], static_cast<std::int32_t>(i));
  }
}

TEST(Shuffle, PreviousContentHasNoInfluence) {
  std::vector<std::int32_t> order = shuffled(100, 9, 9);
  shuffle(order, 1, 0);
  EXPECT_EQ(order, shuffled(100, 1, 0));
}

TEST(Shuffle, AllOrdersOfThreeRowsAreEquallyFrequent) {
  std::vector<int> order_counts(27, 0);
  const int draws = 6000;
  for (int epoch = 0; epoch < draws; ++epoch) {
    auto o = shuffled(3, 11, epoch);
    ++order_counts[static_cast<std::size_t>(o[0] * 9 + o[1] * 3 + o[2])];
  }
  int orders = 0;
  for (int count : order_counts) {
    if (count == 0) continue;
    ++orders;
    EXPECT_NEAR(count, draws / 6, 5 * 29);  // five standard deviations of a binomial (6000, 1/6)
  }
  EXPECT_EQ(orders, 6);
}

}  // namespace
}  // namespace karez::data
