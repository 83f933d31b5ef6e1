// A fast hash of bytes (XXH3, https://github.com/Cyan4973/xxHash). It is the same on every machine; not for secrets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace karez::base {

std::uint64_t hash_bytes(std::span<const std::byte> bytes);

}  // namespace karez::base
