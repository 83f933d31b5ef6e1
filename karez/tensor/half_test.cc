// Tests of 16-bit floats: the value of every bit pattern, and rounding to the nearest number.
#include "karez/tensor/half.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace karez::tensor {
namespace {

// Evaluates the definition: (-1)^s * 2^(e - bias) * (1 + f / 2^fraction_bits); if e is 0, (-1)^s * 2^(1 - bias) * f /
// 2^fraction_bits.
double defined_value(int bits, int fraction_bits, int exponent_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1, e = bits >> fraction_bits & ((1 << exponent_bits) - 1),
            f = bits & ((1 << fraction_bits) - 1);
  const double sign = bits >> 15 ? -1 : 1, scaled = std::ldexp(f, -fraction_bits);
  if (e == (1 << exponent_bits) - 1) return f == 0 ? sign * HUGE_VAL : std::nan("");
  return sign * (e == 0 ? std::ldexp(scaled, 1 - bias) : std::ldexp(1 + scaled, e - bias));
}

template <class T> struct Format;
template <> struct Format<Bf16> { static constexpr int fraction = 7, exponent = 8; };
template <> struct Format<F16> { static constexpr int fraction = 10, exponent = 5; };

template <class T> class Halves : public ::testing::Test {};
using Types = ::testing::Types<Bf16, F16>;
TYPED_TEST_SUITE(Halves, Types);

TYPED_TEST(Halves, EveryBitPatternHasItsDefinedValueAndRoundsToItself) {
  using F = Format<TypeParam>;
  for (int bits = 0; bits < 65536; ++bits) {
    const auto half = TypeParam::from_bits(static_cast<std::uint16_t>(bits));
    const double expected = defined_value(bits, F::fraction, F::exponent);
    const float value = half;
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      const int quiet = bits | 1 << (F::fraction - 1);
      ASSERT_EQ(TypeParam(value).bits, quiet) << bits;
      ASSERT_EQ(TypeParam(static_cast<double>(value)).bits, quiet) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), expected) << bits;
    ASSERT_EQ(std::signbit(value), bits >> 15 == 1) << bits;
    ASSERT_EQ(TypeParam(value).bits, bits);
    ASSERT_EQ(TypeParam(expected).bits, bits);
  }
}

// Returns the bits of the nearest number. Positive bit patterns are sorted by value, so it is one of two neighbours; a
// tie goes to the even pattern. Infinity counts as the next number after the largest.
template <class T> int nearest(double x) {
  using F = Format<T>;
  const int infinity = ((1 << F::exponent) - 1) << F::fraction;
  const auto number = [&](int bits) {
    return bits == infinity ? 2 * defined_value(infinity - (1 << F::fraction), F::fraction, F::exponent)
                            : defined_value(bits, F::fraction, F::exponent);
  };
  int low = 0, high = infinity;  // number(low) <= |x|
  while (high - low > 1) (number((low + high) / 2) <= std::abs(x) ? low : high) = (low + high) / 2;
  if (std::abs(x) >= number(infinity)) low = high;
  const double distance_down = std::abs(x) - number(low), distance_up = number(high) - std::abs(x);
  const int rounded = distance_down < distance_up || (distance_down == distance_up && low % 2 == 0) ? low : high;
  return rounded | (std::signbit(x) ? 0x8000 : 0);
}

TYPED_TEST(Halves, AnInitializedHalfIsZero) {
  EXPECT_EQ(TypeParam{}.bits, 0);
  EXPECT_EQ(TypeParam::from_bits(0x3C00).bits, 0x3C00);
}

TYPED_TEST(Halves, NumbersAreRoundedToNearestWithTiesToEven) {
  using F = Format<TypeParam>;
  std::vector<double> values = {0.0,    -0.0,   HUGE_VAL,  -HUGE_VAL, 1e300, -1e300,
                                5e-324, 3.4e38, 65519.999, 65520,     65504, 65536};
  for (int bits = 0; bits < 0x7F00; bits += bits < 64 ? 1 : 37) {
    const double current = defined_value(bits, F::fraction, F::exponent),
                 next = defined_value(bits + 1, F::fraction, F::exponent);
    if (!std::isfinite(next) || std::isnan(current)) continue;
    const double middle = (current + next) / 2;
    for (double x :
         {middle, std::nextafter(middle, 0.0), std::nextafter(middle, HUGE_VAL), current + (next - current) * 0.3}) {
      values.push_back(x);
      values.push_back(-x);
    }
  }
  std::mt19937_64 random(5);
  for (int i = 0; i < 20000; ++i) values.push_back(std::bit_cast<double>(random() >> 12 << 12));
  for (double x : values) {
    if (std::isnan(x)) continue;
    ASSERT_EQ(TypeParam(x).bits, nearest<TypeParam>(x)) << x;
    const auto single = static_cast<float>(x);
    ASSERT_EQ(TypeParam(single).bits, nearest<TypeParam>(static_cast<double>(single))) << single;
  }
}

TYPED_TEST(Halves, AnF64IsRoundedOnceAndNotThroughAnF32) {
  const double one_up =
      defined_value(TypeParam(1.0).bits + 1, Format<TypeParam>::fraction, Format<TypeParam>::exponent);
  const double just_above =
      std::nextafter((1 + one_up) / 2, 2.0);  // rounded to f32, this is the middle, which rounds to the even 1
  EXPECT_EQ(static_cast<float>(TypeParam(just_above)), static_cast<float>(one_up));
  EXPECT_EQ(static_cast<float>(TypeParam(static_cast<float>(just_above))), 1);
}

}  // namespace
}  // namespace karez::tensor
