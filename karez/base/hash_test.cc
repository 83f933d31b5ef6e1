// Tests of hashes and of counter-based random numbers.
#include "karez/base/hash.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "karez/base/philox.h"

namespace karez::base {
namespace {

TEST(Hash, TheHashIsTheSameOnEveryMachine) {  // ranks on different machines compare hashes
  EXPECT_EQ(hash_text(""), Hash().add("").value());
  EXPECT_EQ(hash_text("karez"), 0x7bbb079494061f8dull);
}

TEST(Hash, PiecesDifferFromTheirConcatenation) {
  EXPECT_NE(Hash().add("ab").add("c").value(), Hash().add("a").add("bc").value());
  EXPECT_NE(Hash().add("").value(), Hash().value());
  EXPECT_NE(Hash().add(1).add(2).value(), Hash().add(2).add(1).value());
}

TEST(Hash, NumbersOfEveryWidthAreHashedByValue) {
  EXPECT_EQ(Hash().add(-1).value(), Hash().add(std::int64_t{-1}).value());
  EXPECT_EQ(Hash().add(7u).value(), Hash().add(std::uint64_t{7}).value());
  EXPECT_NE(Hash().add(0.25).value(), Hash().add(0.5).value());
  EXPECT_NE(Hash().add(1.0).value(), Hash().add(1).value());
}

TEST(Hash, OneChangedBitChangesHalfOfTheHash) {
  double flipped = 0;
  for (std::uint64_t i = 0; i < 64; ++i)
    flipped += std::popcount(Hash().add(std::uint64_t{0}).value() ^ Hash().add(std::uint64_t{1} << i).value());
  EXPECT_NEAR(flipped / 64, 32, 3);
}

TEST(Hash, ManyNamesDoNotCollide) {
  std::set<std::uint64_t> distinct_hashes;
  for (int i = 0; i < 100000; ++i) distinct_hashes.insert(hash_text("layer" + std::to_string(i)));
  EXPECT_EQ(distinct_hashes.size(), 100000u);
}

// The known-answer tests of the Random123 library, published with the paper.
TEST(Philox, PhiloxGivesThePublishedWords) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, AnElementsWordDependsOnlyOnSeedStreamAndIndex) {
  for (std::uint64_t e = 0; e < 8; ++e) {
    auto block = philox({static_cast<std::uint32_t>(e / 4), 0, 5, 0}, {9, 0});
    EXPECT_EQ(philox_word(9, 5, e), block[e % 4]);
  }
  EXPECT_NE(philox_word(9, 5, 0), philox_word(9, 6, 0));
  EXPECT_NE(philox_word(9, 5, 0), philox_word(10, 5, 0));
  EXPECT_NE(philox_word(9, 5, 1), philox_word(9, 5, 1 + (std::uint64_t{4} << 32)))
      << "the high half of the index is used";
  EXPECT_NE(philox_word(9, 5, 1), philox_word(9 + (std::uint64_t{1} << 32), 5, 1))
      << "the high half of the seed is used";
}

TEST(Philox, UnitFloatsAreInTheHalfOpenInterval) {
  EXPECT_EQ(unit_float(0), 0.0f);
  EXPECT_LT(unit_float(~0u), 1.0f);
  EXPECT_EQ(unit_double(0), 0.0);
  EXPECT_LT(unit_double(~0u), 1.0);
}

TEST(Philox, WordsAreUniform) {
  std::vector<int> bins(16);
  double sum = 0;
  int n = 160000;
  for (int i = 0; i < n; ++i) {
    float u = unit_float(philox_word(1, 2, static_cast<std::uint64_t>(i)));
    sum += u;
    ++bins[static_cast<std::size_t>(u * 16)];
  }
  EXPECT_NEAR(sum / n, 0.5, 4 * std::sqrt(1.0 / 12 / n));
  for (int count : bins) EXPECT_NEAR(count, n / 16, 5 * std::sqrt(n / 16.0));
}

}  // namespace
}  // namespace karez::base
