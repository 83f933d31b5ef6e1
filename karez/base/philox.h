// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#pragma once

#include <array>
#include <cstdint>

namespace karez::base {

// Returns four random words for a 128-bit counter and a 64-bit key; they are the same on every machine and device.
inline std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    std::uint64_t p0 = std::uint64_t{0xD2511F53} * counter[0];
    std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

// Returns the word of one logical element: element e takes lane e % 4 of counter (e / 4, stream), so a shard of any
// shape gets the same numbers as the whole tensor.
inline std::uint32_t philox_word(std::uint64_t seed, std::uint64_t stream, std::uint64_t element) {
  std::uint64_t block = element / 4;
  auto words = philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                       static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return words[element % 4];
}

// Uniform numbers in [0, 1) with 24 (f32) or 32 (f64) random bits.
inline float unit_float(std::uint32_t word) { return static_cast<float>(word >> 8) * (1.0f / 16777216.0f); }
inline double unit_double(std::uint32_t word) { return static_cast<double>(word) * (1.0 / 4294967296.0); }

}  // namespace karez::base
