// Secrets: tokens, nonces, and proofs that a process has a token, computed by libsodium.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "karez/comm/namespace.h"

namespace karez::comm {

using Bytes32 = std::array<std::byte, 32>;

// The secret that all processes of a world share: 256 bits.
struct Token {
  Bytes32 bytes{};
  bool operator==(const Token&) const = default;
};
Token random_token();
std::string print(const Token& token);        // 64 hexadecimal digits, for an environment variable
Token parse_token(std::string_view text);     // inverse of print; the error (kind user) does not quote the text
Token derive_token(std::string_view secret);  // from a launcher's secret of any form

void fill_random(std::span<std::byte> bytes);
Bytes32 hmac_sha256(const Token& token, std::span<const std::byte> text);  // HMAC-SHA256
bool equal_in_constant_time(const Bytes32& a, const Bytes32& b);           // the time does not depend on the bytes

}  // namespace karez::comm
