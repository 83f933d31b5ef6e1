// Unpacks gzip data. Only this file and gzip.cc call zlib.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "karez/data/namespace.h"

namespace karez::data {

// True if the bytes begin with gzip's magic number.
bool is_gzip(std::span<const std::uint8_t> bytes);

// Unpacks the bytes. Error messages begin with `name` and distinguish damage, a wrong checksum and an early end.
// Unpacks at most `max_bytes` bytes and does not check the data after them.
std::vector<std::uint8_t> gunzip(std::span<const std::uint8_t> bytes, std::string_view name,
                                 std::size_t max_bytes = std::numeric_limits<std::size_t>::max());

}  // namespace karez::data
