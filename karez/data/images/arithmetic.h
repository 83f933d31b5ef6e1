// PIL's arithmetic with samples of 8 bits. The ops of compiled functions (karez/api/images) compute the same numbers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "karez/data/namespace.h"

namespace karez::data {

// Grey is the sum of red, green and blue with these weights, and of 1/2, rounded down; all in units of 1 / 65536.
constexpr std::array<unsigned, 3> grey_weights = {19595, 38470, 7471};
constexpr unsigned grey_half = 1 << 15, grey_bits = 16;
inline std::uint8_t grey_of(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>(
      (rgb[0] * grey_weights[0] + rgb[1] * grey_weights[1] + rgb[2] * grey_weights[2] + grey_half) >> grey_bits);
}

// a * b / 255, rounded.
inline std::uint8_t multiply_samples(unsigned a, unsigned b) {
  const unsigned product = a * b + 128;
  return static_cast<std::uint8_t>(((product >> 8) + product) >> 8);
}

// The colour whose product with alpha is `product`.
inline std::uint8_t divide_by_alpha(unsigned product, unsigned alpha) {
  if (alpha == 0 || alpha == 255) return static_cast<std::uint8_t>(product);
  return static_cast<std::uint8_t>(std::min(255u, 255 * product / alpha));
}

}  // namespace karez::data
