// Computes CRC-32C by ISA-L, which takes an `int` as the number of bytes.
#include "karez/data/formats/isal_crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace karez::data {

std::uint32_t crc32c(std::span<const std::uint8_t> bytes) {
  std::uint32_t state = ~0u;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min<std::size_t>(bytes.size(), 1u << 30));
    state = crc32_iscsi(const_cast<unsigned char*>(part.data()), static_cast<int>(part.size()), state);
    bytes = bytes.subspan(part.size());
  }
  return ~state;
}

}  // namespace karez::data
