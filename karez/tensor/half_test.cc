// Tests of 16-bit floats: the value of every bit pattern, and rounding to the nearest number.
#include "karez/tensor/half.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace karez::tensor {
namespace {

// The definition: (-1)^s * 2^(e - bias) * (1 + f / 2^fraction_bits); if e is 0, (-1)^s * 2^(1 - bias) * f /
// 2^fraction_bits.
double by_definition(int bits, int fraction_bits, int exponent_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1, e = bits >> fraction_bits & ((1 << exponent_bits) - 1),
            f = bits & ((1 << fraction_bits) - 1);
  const double sign = bits >> 15 ? -1 : 1, part = std::ldexp(f, -fraction_bits);
  if (e == (1 << exponent_bits) - 1) return f == 0 ? sign * HUGE_VAL : std::nan("");
  return sign * (e == 0 ? std::ldexp(part, 1 - bias) : std::ldexp(1 + part, e - bias));
}

template <class T> struct Format;
template <> struct Format<Bf16> { static constexpr int fraction = 7, exponent = 8; };
template <> struct Format<F16> { static constexpr int fraction = 10, exponent = 5; };

template <class T> class Halves : public ::testing::Test {};
using Types = ::testing::Types<Bf16, F16>;
TYPED_TEST_SUITE(Halves, Types);

TYPED_TEST(Halves, EveryPatternHasItsDefinedValueAndRoundsToItself) {
  using F = Format<TypeParam>;
  for (int bits = 0; bits < 65536; ++bits) {
    const auto half = TypeParam::from_bits(static_cast<std::uint16_t>(bits));
    const double want = by_definition(bits, F::fraction, F::exponent);
    const float value = half;
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      const int quiet = bits | 1 << (F::fraction - 1);
      ASSERT_EQ(TypeParam(value).bits, quiet) << bits;
      ASSERT_EQ(TypeParam(static_cast<double>(value)).bits, quiet) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), want) << bits;
    ASSERT_EQ(std::signbit(value), bits >> 15 == 1) << bits;
    ASSERT_EQ(TypeParam(value).bits, bits);
    ASSERT_EQ(TypeParam(want).bits, bits);
  }
}

// Positive patterns are sorted by value, so the nearest is one of two neighbours; of two equally near, the even
// pattern. Infinity counts as the next number after the largest.
template <class T> int nearest(double x) {
  using F = Format<T>;
  const int infinity = ((1 << F::exponent) - 1) << F::fraction;
  const auto number = [&](int bits) {
    return bits == infinity ? 2 * by_definition(infinity - (1 << F::fraction), F::fraction, F::exponent)
                            : by_definition(bits, F::fraction, F::exponent);
  };
  int low = 0, high = infinity;  // number(low) <= |x|
  while (high - low > 1) (number((low + high) / 2) <= std::abs(x) ? low : high) = (low + high) / 2;
  if (std::abs(x) >= number(infinity)) low = high;
  const double below = std::abs(x) - number(low), above = number(high) - std::abs(x);
  const int chosen = below < above || (below == above && low % 2 == 0) ? low : high;
  return chosen | (std::signbit(x) ? 0x8000 : 0);
}

TYPED_TEST(Halves, NumbersRoundToNearestTiesToEven) {
  using F = Format<TypeParam>;
  std::vector<double> numbers = {0.0,    -0.0,   HUGE_VAL,  -HUGE_VAL, 1e300, -1e300,
                                 5e-324, 3.4e38, 65519.999, 65520,     65504, 65536};
  for (int bits = 0; bits < 0x7F00; bits += bits < 64 ? 1 : 37) {
    const double here = by_definition(bits, F::fraction, F::exponent),
                 next = by_definition(bits + 1, F::fraction, F::exponent);
    if (!std::isfinite(next) || std::isnan(here)) continue;
    const double middle = (here + next) / 2;
    for (double x :
         {middle, std::nextafter(middle, 0.0), std::nextafter(middle, HUGE_VAL), here + (next - here) * 0.3}) {
      numbers.push_back(x);
      numbers.push_back(-x);
    }
  }
  std::mt19937_64 random(5);
  for (int i = 0; i < 20000; ++i) numbers.push_back(std::bit_cast<double>(random() >> 12 << 12));
  for (double x : numbers) {
    if (std::isnan(x)) continue;
    ASSERT_EQ(TypeParam(x).bits, nearest<TypeParam>(x)) << x;
    const auto single = static_cast<float>(x);
    ASSERT_EQ(TypeParam(single).bits, nearest<TypeParam>(static_cast<double>(single))) << single;
  }
}

TYPED_TEST(Halves, AnF64IsRoundedOnceAndNotThroughAnF32) {
  const double one_up =
      by_definition(TypeParam(1.0).bits + 1, Format<TypeParam>::fraction, Format<TypeParam>::exponent);
  const double just_above =
      std::nextafter((1 + one_up) / 2, 2.0);  // as an f32 it is the middle, which rounds to the even 1
  EXPECT_EQ(static_cast<float>(TypeParam(just_above)), static_cast<float>(one_up));
  EXPECT_EQ(static_cast<float>(TypeParam(static_cast<float>(just_above))), 1);
}

}  // namespace
}  // namespace karez::tensor
