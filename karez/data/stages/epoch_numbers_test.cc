// Tests of epochs and indices beyond 63 bits, which are keys of random numbers only.
#include <gtest/gtest.h>

#include <limits>

#include "karez/data/dataset.h"
#include "karez/data/stages/dataset_node.h"
#include "karez/data/stages/sequential_reader.h"

namespace karez::data {
namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

// The lowest 63 bits.
std::int64_t low_bits(__int128 number) { return static_cast<std::int64_t>(number & largest); }

TEST(EpochNumbers, SumsAndProductsAreTheLowestBitsOfTheExactResults) {
  for (std::int64_t a : {std::int64_t{0}, std::int64_t{7}, largest - 1, largest, std::int64_t{1} << 40})
    for (std::int64_t b : {std::int64_t{0}, std::int64_t{3}, largest, std::int64_t{1} << 40}) {
      EXPECT_EQ(wrapping_sum(a, b), low_bits(static_cast<__int128>(a) + b)) << a << " " << b;
      EXPECT_EQ(wrapping_product(a, b), low_bits(static_cast<__int128>(a) * b)) << a << " " << b;
    }
}

TEST(EpochNumbers, ARepetitionOfLateEpochsHasValidEpochs) {
  const Dataset thrice = range(3).repeat(3),
                endless_numbers = range(2).filter([](const Element&) { return true; }).repeat();
  for (std::int64_t i = 0; i < 9; ++i)
    EXPECT_EQ(thrice.at(i, largest).epoch, low_bits(static_cast<__int128>(largest) * 3 + i / 3)) << i;
  SequentialReader reader(endless_numbers);
  reader.start({largest});
  for (std::int64_t expected : {largest, largest, std::int64_t{0}, std::int64_t{0}, std::int64_t{1}})
    EXPECT_EQ(reader.next().value().epoch, expected);
  const Dataset cached = thrice.cache();
  for (int time = 0; time < 2; ++time) {
    SequentialReader cache(cached);
    cache.start({largest});
    for (std::int64_t i = 0; i < 9; ++i) EXPECT_GE(cache.next().value().epoch, 0);
    EXPECT_FALSE(cache.next());
  }
}

}  // namespace
}  // namespace karez::data
