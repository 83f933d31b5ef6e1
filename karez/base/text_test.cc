// Tests of text functions, checked sizes, ids and log lines.
#include "karez/base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <unordered_set>

#include "karez/base/error.h"
#include "karez/base/id.h"
#include "karez/base/log.h"

namespace karez::base {
namespace {

using ::testing::ElementsAre;

TEST(Text, CatTakesEveryKindOfPart) {
  EXPECT_EQ(cat("a", 'b', 1, -2L, true, 0.5, 2.0f, std::string("s"), std::string_view("v"), std::uint8_t{7}),
            "ab1-2true0.52.0sv7");
  EXPECT_EQ(cat(), "");
  EXPECT_EQ(cat(std::numeric_limits<std::int64_t>::min(), " ", std::numeric_limits<std::uint64_t>::max()),
            "-9223372036854775808 18446744073709551615");
  EXPECT_EQ(cat(Id<struct SomeTag>(4)), "4") << "a value with a stream operator is accepted";
  const std::vector<std::int64_t> no_numbers, one_number{-7}, two_numbers{0, std::numeric_limits<std::int64_t>::max()};
  EXPECT_EQ(cat("sizes ", no_numbers, one_number, two_numbers), "sizes [][-7][0, 9223372036854775807]");
}

TEST(Text, JoinPutsTheSeparatorBetweenItems) {
  EXPECT_EQ(join(std::vector{1, 2, 3}, ", "), "1, 2, 3");
  EXPECT_EQ(join(std::vector<int>{}, ", "), "");
  EXPECT_EQ(join(std::vector<std::string>{"", "", ""}, "-"), "--");
  EXPECT_EQ(join(std::vector{1, 2}, "+", [](int i) { return i * i; }), "1+4");
}

TEST(Text, SplitKeepsEmptyPieces) {
  EXPECT_THAT(split("a,,b,", ','), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

TEST(Text, TrimRemovesWhiteSpaceAtBothEnds) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n "), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Text, StartsWithIsFalseForLongerPrefixes) {
  EXPECT_TRUE(starts_with("mesh", "me"));
  EXPECT_TRUE(starts_with("mesh", ""));
  EXPECT_FALSE(starts_with("me", "mesh"));
}

TEST(Text, DoublesPrintDifferentlyFromIntegersAndParseToTheSameBits) {
  EXPECT_EQ(number(1), "1.0");
  EXPECT_EQ(number(-0.0), "-0.0");
  EXPECT_EQ(number(0.1), "0.1");
  EXPECT_EQ(number(1e-5), "1e-05");
  EXPECT_EQ(number(1e300), "1e+300");
  EXPECT_EQ(number(-INFINITY), "-inf");
  EXPECT_EQ(number(NAN), "nan");
  std::mt19937_64 random(11);
  for (int i = 0; i < 10000; ++i) {
    std::uint64_t bits = random();
    double value = 0, parsed = 0;
    std::memcpy(&value, &bits, sizeof value);
    if (std::isnan(value)) continue;
    std::string text = number(value);
    parsed = std::strtod(text.c_str(), nullptr);
    ASSERT_EQ(std::memcmp(&value, &parsed, sizeof value), 0) << text;
    ASSERT_NE(text.find_first_of(".en"), std::string::npos) << text;
  }
}

TEST(Text, QuoteEscapesSpecialCharacters) { EXPECT_EQ(quote("a \"b\"\\\n\t"), "\"a \\\"b\\\"\\\\\\n\\t\""); }

TEST(Text, BytesAreShownWithAUnit) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.50 KiB");
  EXPECT_EQ(bytes_text(std::int64_t{5} << 40), "5.00 TiB");
}

TEST(Error, AnOverflowOfSizesIsAnErrorWithBothValues) {
  std::int64_t large_size = std::int64_t{1} << 40;
  EXPECT_EQ(checked_mul(large_size, 4), large_size * 4);
  EXPECT_EQ(checked_add(large_size, -4), large_size - 4);
  try {
    checked_mul(large_size, large_size);
    FAIL() << "an overflow must be an error";
  } catch (const Error& error) { EXPECT_STREQ(error.what(), "size overflows 64 bits: 1099511627776 x 1099511627776"); }
  EXPECT_THROW(checked_add(std::numeric_limits<std::int64_t>::max(), 1), Error);
  EXPECT_EQ(ceil_div(7, 2), 4);
  EXPECT_EQ(round_up(65, 64), 128);
  EXPECT_EQ(round_up(64, 64), 64);
}

TEST(Error, RequireThrowsOnlyIfTheConditionIsFalse) {
  require(true, "fine");
  EXPECT_THROW(require(false, "sizes differ: ", 3, " and ", 4), Error);
}

TEST(Id, ADefaultIdIsInvalidAndIdsAreOrdered) {
  using Some = Id<struct SomeTag>;
  EXPECT_FALSE(Some().valid());
  EXPECT_TRUE(Some(0).valid());
  EXPECT_LT(Some(1), Some(2));
  std::unordered_set<Some> set{Some(1), Some(1), Some(2)};
  EXPECT_EQ(set.size(), 2u);
}

TEST(Log, ALineShowsItsLevel) {
  ::testing::internal::CaptureStderr();
  log_line(LogLevel::warning, "a hidden copy of 8 bytes");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "karez warning: a hidden copy of 8 bytes\n");
  EXPECT_TRUE(log_enabled(LogLevel::warning));
}

}  // namespace
}  // namespace karez::base
