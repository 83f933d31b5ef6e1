// Computes the hash with xxHash, which is compiled into this file.
#include "karez/base/xxhash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace karez::base {

std::uint64_t hash_bytes(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace karez::base
