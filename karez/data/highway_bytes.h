// Turns bytes into normalised floats.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "karez/data/namespace.h"

namespace karez::data {

// The function (byte / 255 - mean) / deviation, in f32, with each operation rounded to the nearest float.
class ByteNormalisation {
 public:
  // Any mean, and any deviation other than 0.
  ByteNormalisation(float mean, float deviation);
  // Writes as many floats as there are bytes.
  void apply(std::span<const std::uint8_t> bytes, float* out) const;

 private:
  float mean_, deviation_;
  std::array<float, 256> values_ = {};  // by byte
  bool is_exact_ = false;               // the vectors' instructions give exactly these values
};

}  // namespace karez::data
