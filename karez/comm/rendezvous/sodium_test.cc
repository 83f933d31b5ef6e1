// Tests of tokens and of the proofs that are made with them.
#include "karez/comm/rendezvous/sodium.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "karez/base/test_error.h"

namespace karez::comm {
namespace {
using ::testing::HasSubstr;

TEST(Token, APrintedTokenCanBeParsed) {
  Token token = random_token();
  EXPECT_EQ(print(token).size(), 64u);
  EXPECT_EQ(parse_token(print(token)), token);
  EXPECT_FALSE(random_token() == token);
}

TEST(Token, AnInvalidTokenIsRejectedAndNotQuoted) {
  std::string valid = print(random_token());
  for (const std::string& invalid : std::vector<std::string>{"", valid.substr(1), valid + "0", "x" + valid.substr(1),
                                                             valid.substr(0, 32), "secret"}) {
    std::string message = error_of([&] { parse_token(invalid); });
    EXPECT_THAT(message, HasSubstr("a token is 64 hexadecimal digits")) << invalid;
    if (!invalid.empty()) { EXPECT_EQ(message.find(invalid), std::string::npos); }
  }
}

TEST(Token, ATokenDerivedFromASecretIsAlwaysTheSame) {
  EXPECT_EQ(derive_token("0123456789abcdef"), derive_token("0123456789abcdef"));
  EXPECT_FALSE(derive_token("0123456789abcdef") == derive_token("0123456789abcdeg"));
  EXPECT_THROW(derive_token("short"), Error);
}

// Test case 1 of RFC 4231. Its key of 20 bytes is padded with zeros, as HMAC does.
TEST(Token, ProofsAreHmacSha256) {
  Token key;
  for (int i = 0; i < 20; ++i) key.bytes[static_cast<std::size_t>(i)] = std::byte{0x0b};
  std::string text = "Hi There";
  EXPECT_EQ(print(Token{hmac_sha256(key, std::as_bytes(std::span(text)))}),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
}

}  // namespace
}  // namespace karez::comm
