// 16-bit floats. They convert to f32 exactly. Other numbers are converted to them by rounding once, to nearest with
// ties to even.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "karez/tensor/namespace.h"

namespace karez::tensor {

// Returns the bits of the number nearest to x in a format with these numbers of exponent and fraction bits. As in IEEE
// 754, numbers that are too large become infinity, and small numbers become subnormal or zero. NaN becomes quiet and
// keeps its sign and the highest bits of its payload.
template <int exponent_bits, int fraction_bits> constexpr std::uint16_t round_to_half(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const auto sign = static_cast<std::uint16_t>(bits >> 63 << 15);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  const int exponent = static_cast<int>(bits >> 52 & 2047) - 1023;
  constexpr int min_exponent = 2 - (1 << (exponent_bits - 1));  // of a normal number
  constexpr std::int64_t infinity = ((std::int64_t{1} << exponent_bits) - 1) << fraction_bits;
  if (exponent == 1024 && fraction != 0)
    return static_cast<std::uint16_t>(sign | infinity | (std::uint64_t{1} << (fraction_bits - 1)) |
                                      fraction >> (52 - fraction_bits));
  const int subnormal_shift = exponent < min_exponent ? min_exponent - exponent : 0,
            shift = 52 - fraction_bits + subnormal_shift;
  if (shift > 53) return sign;  // x is less than half of the smallest number, as all subnormal doubles are
  const std::uint64_t significand = fraction | std::uint64_t{1} << 52, half = std::uint64_t{1} << (shift - 1),
                      remainder = significand & (2 * half - 1);
  std::uint64_t rounded_bits = significand >> shift;
  rounded_bits += remainder > half || (remainder == half && (rounded_bits & 1) != 0);
  const std::int64_t out =
      (subnormal_shift > 0 ? 0 : static_cast<std::int64_t>(exponent - min_exponent) << fraction_bits) +
      static_cast<std::int64_t>(rounded_bits);
  return static_cast<std::uint16_t>(sign | (out < infinity ? out : infinity));
}

// One sign bit, eight exponent bits, seven fraction bits: the upper half of an f32.
struct Bf16 {
  std::uint16_t bits = 0;

  Bf16() = default;
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr explicit Bf16(T x) : bits(rounded(x)) {}
  constexpr operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  static constexpr Bf16 from_bits(std::uint16_t bits) {
    Bf16 out;
    out.bits = bits;
    return out;
  }

 private:
  static constexpr std::uint16_t rounded(float x) {
    const auto float_bits = std::bit_cast<std::uint32_t>(x);
    if (x != x) return static_cast<std::uint16_t>(float_bits >> 16 | 0x40);
    return static_cast<std::uint16_t>((float_bits + 0x7FFF + (float_bits >> 16 & 1)) >> 16);
  }
  template <class T> static constexpr std::uint16_t rounded(T x) { return round_to_half<8, 7>(static_cast<double>(x)); }
};

// One sign bit, five exponent bits (bias 15), ten fraction bits, as in IEEE 754.
struct F16 {
  std::uint16_t bits = 0;

  F16() = default;
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr explicit F16(T x) : bits(round_to_half<5, 10>(static_cast<double>(x))) {}
  constexpr operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16, exponent = bits >> 10 & 31u,
                        fraction = bits & 1023u;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | fraction << 13);
    if (exponent == 0)
      return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24f));
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  }
  static constexpr F16 from_bits(std::uint16_t bits) {
    F16 out;
    out.bits = bits;
    return out;
  }
};

template <class T> inline constexpr bool is_half_type = std::is_same_v<T, Bf16> || std::is_same_v<T, F16>;

}  // namespace karez::tensor

template <> struct std::numeric_limits<karez::tensor::Bf16> : std::numeric_limits<float> {
  static constexpr auto max() { return karez::tensor::Bf16::from_bits(0x7F7F); }
  static constexpr auto lowest() { return karez::tensor::Bf16::from_bits(0xFF7F); }
  static constexpr auto infinity() { return karez::tensor::Bf16::from_bits(0x7F80); }
};
template <> struct std::numeric_limits<karez::tensor::F16> : std::numeric_limits<float> {
  static constexpr auto max() { return karez::tensor::F16::from_bits(0x7BFF); }
  static constexpr auto lowest() { return karez::tensor::F16::from_bits(0xFBFF); }
  static constexpr auto infinity() { return karez::tensor::F16::from_bits(0x7C00); }
};
