// 64-bit hashes of text and numbers. They are the same on every machine, and are for keys and comparisons between
// ranks, not for secrets.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace karez::base {

class Hash {
 public:
  Hash& add(std::string_view text) {
    for (unsigned char c : text) state_ = (state_ ^ c) * 0x100000001b3ull;  // FNV-1a
    return add(static_cast<std::uint64_t>(text.size()));
  }
  template <class T>
  requires std::is_integral_v<T> Hash& add(T word) { return add(static_cast<std::uint64_t>(word)); }
  Hash& add(double value) { return add(std::bit_cast<std::uint64_t>(value)); }  // hashes the bits
  Hash& add(std::uint64_t word) {
    for (int i = 0; i < 8; ++i) state_ = (state_ ^ ((word >> (8 * i)) & 0xff)) * 0x100000001b3ull;
    return *this;
  }
  std::uint64_t value() const {  // the 64-bit finaliser of MurmurHash3, because FNV alone mixes high bits poorly
    std::uint64_t h = state_;
    h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdull;
    h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53ull;
    return h ^ (h >> 33);
  }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325ull;
};

inline std::uint64_t hash_text(std::string_view text) { return Hash().add(text).value(); }

}  // namespace karez::base
