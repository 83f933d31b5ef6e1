// Reading gzip data: the only place that calls zlib.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "karez/data/namespace.h"

namespace karez::data {

// True where the bytes begin as gzip does.
bool is_gzip(std::span<const std::uint8_t> bytes);

// The bytes that were compressed. `name` is what errors call the data: damage, a wrong checksum and an early end are
// told apart. At most `most` bytes are unpacked; what would follow them is not looked at.
std::vector<std::uint8_t> gunzip(std::span<const std::uint8_t> bytes, std::string_view name,
                                 std::size_t max_bytes = std::numeric_limits<std::size_t>::max());

}  // namespace karez::data
