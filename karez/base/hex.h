// Bytes as text, with two lower-case hexadecimal digits per byte.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace karez::base {

std::string hex_of(std::span<const std::byte> bytes);

// Accepts digits of either case; another character or an odd number of digits is an error.
std::vector<std::byte> bytes_of_hex(std::string_view digits);

}  // namespace karez::base
