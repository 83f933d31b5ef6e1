// Tests of the conversion between bytes and hexadecimal text, and of invalid text.
#include "karez/base/hex.h"

#include <gtest/gtest.h>

#include "karez/base/error.h"

namespace karez::base {
namespace {

TEST(Hex, BytesRoundTripThroughText) {
  std::vector<std::byte> all_bytes;
  for (int b = 0; b < 256; ++b) all_bytes.push_back(static_cast<std::byte>(b));
  const std::string text = hex_of(all_bytes);
  EXPECT_EQ(text.substr(0, 8), "00010203");
  EXPECT_EQ(text.substr(text.size() - 6), "fdfeff");
  EXPECT_EQ(bytes_of_hex(text), all_bytes);
  EXPECT_EQ(bytes_of_hex("FFa0"), (std::vector<std::byte>{std::byte{255}, std::byte{160}}));
  EXPECT_EQ(hex_of({}), "");
  EXPECT_TRUE(bytes_of_hex("").empty());
}

TEST(Hex, AnOddNumberOfDigitsAndOtherLettersAreErrors) {
  EXPECT_THROW(bytes_of_hex("abc"), Error);
  EXPECT_THROW(bytes_of_hex("0g"), Error);
}

}  // namespace
}  // namespace karez::base
