// The checksum CRC-32C (Castagnoli).
#pragma once

#include <cstdint>
#include <span>

#include "karez/data/namespace.h"

namespace karez::data {

std::uint32_t crc32c(std::span<const std::uint8_t> bytes);

}  // namespace karez::data
