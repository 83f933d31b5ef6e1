// A byte copy whose speed does not depend on the alignment of source and destination.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace karez::base {

// Like std::memcpy, but copies in pieces of 2 KB if the destination's offset in its page is 1 to 63 bytes above the
// source's. In this case AMD's Zen 3 and 4 run `rep movsb` 15 times slower, and glibc 2.36 uses it for copies of 2,112
// bytes or more (sourceware.org/bugzilla/show_bug.cgi?id=30994).
inline void copy_bytes(void* to, const void* from, std::size_t bytes) {
  constexpr std::size_t piece = 2048, page = 4096, line = 64;
  const std::size_t distance = (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from)) % page;
  if (bytes > piece && distance - 1 < line - 1) {
    auto* t = static_cast<std::byte*>(to);
    const auto* f = static_cast<const std::byte*>(from);
    for (; bytes > piece; bytes -= piece, t += piece, f += piece) std::memcpy(t, f, piece);
    std::memcpy(t, f, bytes);
    return;
  }
  std::memcpy(to, from, bytes);
}

}  // namespace karez::base
