// Bytes as text, two lower-case hexadecimal digits each.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace karez::base {

std::string hex_of(std::span<const std::byte> bytes);

// Of digits of either case; anything else, or half a byte, is an error.
std::vector<std::byte> bytes_of_hex(std::string_view digits);

}  // namespace karez::base
