// Conversion between bytes and hexadecimal text.
#include "karez/base/hex.h"

#include "karez/base/error.h"

namespace karez::base {
namespace {

unsigned value_of(char digit) {
  if (digit >= '0' && digit <= '9') return static_cast<unsigned>(digit - '0');
  if (digit >= 'a' && digit <= 'f') return static_cast<unsigned>(digit - 'a' + 10);
  if (digit >= 'A' && digit <= 'F') return static_cast<unsigned>(digit - 'A' + 10);
  fail("'", digit, "' is not a hexadecimal digit");
}

}  // namespace

std::string hex_of(std::span<const std::byte> bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    text += digits[std::to_integer<unsigned>(byte) >> 4];
    text += digits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

std::vector<std::byte> bytes_of_hex(std::string_view digits) {
  require(digits.size() % 2 == 0, "hexadecimal text must have an even number of digits, got ", digits.size());
  std::vector<std::byte> bytes(digits.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(value_of(digits[2 * i]) * 16 + value_of(digits[2 * i + 1]));
  return bytes;
}

}  // namespace karez::base
