// The one way things fail: an exception whose text says what is wrong, both values, and where the user wrote it.
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "base/text.h"

namespace karez {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Parts> [[noreturn]] void fail(const Parts&... parts) { throw Error(cat(parts...)); }

template <class... Parts> void require(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    throw Error(cat(parts...));
}

// Products and sums of sizes: an overflow is an error, never a small number.
inline std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  require(!__builtin_mul_overflow(a, b, &out), "size overflows 64 bits: ", a, " x ", b);
  return out;
}
inline std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  require(!__builtin_add_overflow(a, b, &out), "size overflows 64 bits: ", a, " + ", b);
  return out;
}
inline std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t round_up(std::int64_t a, std::int64_t step) { return ceil_div(a, step) * step; }

}  // namespace karez
