// Implements tokens and proofs with libsodium.
#include "karez/comm/rendezvous/sodium.h"

#include <sodium.h>

#include "karez/base/error.h"

namespace karez::comm {
namespace {
void initialise() {
  static const bool initialised = sodium_init() >= 0;
  require(ErrorKind::device, initialised, "libsodium finds no source of random numbers");
}
const unsigned char* bytes(const std::byte* data) { return reinterpret_cast<const unsigned char*>(data); }
unsigned char* bytes(std::byte* data) { return reinterpret_cast<unsigned char*>(data); }
}  // namespace

Token random_token() {
  Token out;
  fill_random(out.bytes);
  return out;
}

std::string print(const Token& token) {
  char text[65];
  sodium_bin2hex(text, sizeof text, bytes(token.bytes.data()), token.bytes.size());
  return text;
}

Token parse_token(std::string_view text) {
  Token out;
  std::size_t size = 0;
  const char* end = nullptr;
  bool valid =
      sodium_hex2bin(bytes(out.bytes.data()), out.bytes.size(), text.data(), text.size(), nullptr, &size, &end) == 0;
  require(valid && size == out.bytes.size() && text.size() == 64, "a token is 64 hexadecimal digits; this one has ",
          text.size(), " characters, or characters that are not such digits");
  return out;
}

Token derive_token(std::string_view secret) {
  require(secret.size() >= 16, "a secret of ", secret.size(),
          " characters is too short for a token; it must have at least 16");
  Token key;  // zeros, because only a hash is needed
  std::string text = cat("karez token 1 ", secret);
  return {hmac_sha256(key, std::as_bytes(std::span(text)))};
}

void fill_random(std::span<std::byte> into) {
  initialise();
  randombytes_buf(into.data(), into.size());
}

Bytes32 hmac_sha256(const Token& token, std::span<const std::byte> text) {
  static_assert(crypto_auth_hmacsha256_BYTES == sizeof(Bytes32) && crypto_auth_hmacsha256_KEYBYTES == sizeof(Token));
  initialise();
  Bytes32 out;
  crypto_auth_hmacsha256(bytes(out.data()), bytes(text.data()), text.size(), bytes(token.bytes.data()));
  return out;
}

bool equal_in_constant_time(const Bytes32& a, const Bytes32& b) {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace karez::comm
