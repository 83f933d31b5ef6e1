// Tests of the reduce functions of collectives: NaN, +0 and -0, and integer overflow.
#include "karez/runtime/actor/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "karez/base/error.h"

namespace karez::runtime {
namespace {

template <class T> std::vector<T> reduced(Reduce kind, std::vector<T> into, const std::vector<T>& from) {
  reduce_function(kind, dtype_of<T>())(reinterpret_cast<std::byte*>(into.data()),
                                       reinterpret_cast<const std::byte*>(from.data()),
                                       static_cast<std::int64_t>(into.size()));
  return into;
}

template <class T> void check_floats() {
  const T nan = std::numeric_limits<T>::quiet_NaN(), inf = std::numeric_limits<T>::infinity();
  const std::vector<T> a{nan, 1, nan, inf, T{0}, -T{0}, -inf, 3}, b{1, nan, nan, -inf, -T{0}, T{0}, -inf, 2};
  const std::vector<T> max_result = reduced(Reduce::max, a, b), min_result = reduced(Reduce::min, a, b),
                       sum = reduced(Reduce::sum, a, b);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(std::isnan(max_result[i]) && std::isnan(min_result[i]) && std::isnan(sum[i])) << i;
  EXPECT_TRUE(max_result[3] == inf && min_result[3] == -inf && std::isnan(sum[3]));
  for (std::size_t i : {4, 5})
    EXPECT_TRUE(max_result[i] == 0 && !std::signbit(max_result[i]) && min_result[i] == 0 && std::signbit(min_result[i]))
        << i;
  EXPECT_TRUE(max_result[6] == -inf && min_result[6] == -inf);
  EXPECT_TRUE(max_result[7] == 3 && min_result[7] == 2 && sum[7] == 5);
  EXPECT_EQ(reduced<T>(Reduce::max, {b}, a)[7], 3) << "the order of the operands must not matter";
}

TEST(Reduce, NanIsPropagatedFromBothOperandsAndMinusZeroIsLessThanPlusZero) {
  check_floats<float>();
  check_floats<double>();
}

TEST(Reduce, SumsOfIntegersWrapAroundAndMaxAndMinAreExactAtTheLimits) {
  constexpr std::int64_t max_result = std::numeric_limits<std::int64_t>::max(),
                         min_result = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(reduced<std::int64_t>(Reduce::sum, {max_result}, {1})[0], min_result);
  EXPECT_EQ(reduced<std::int64_t>(Reduce::max, {min_result}, {min_result})[0], min_result);
  EXPECT_EQ(reduced<std::int64_t>(Reduce::min, {max_result}, {max_result - 1})[0], max_result - 1);
  EXPECT_EQ(reduced<std::int32_t>(Reduce::sum, {std::numeric_limits<std::int32_t>::min()}, {-1})[0],
            std::numeric_limits<std::int32_t>::max());
}

TEST(Reduce, SumsOfBoolsAreRejected) { EXPECT_THROW(reduce_function(Reduce::sum, DType::b8), Error); }

TEST(Reduce, EveryTypeHasMaxAndMinAndEveryNumberTypeHasSums) {
  for (DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::b8})
    with_type(dtype, [&]<class T>() {
      T a[3] = {T(0), T(1), T(1)}, b[3] = {T(1), T(0), T(1)};
      auto run = [&](Reduce kind) {
        T into[3] = {a[0], a[1], a[2]};
        reduce_function(kind, dtype)(reinterpret_cast<std::byte*>(into), reinterpret_cast<std::byte*>(b), 3);
        return std::vector<int>{static_cast<int>(into[0]), static_cast<int>(into[1]), static_cast<int>(into[2])};
      };
      EXPECT_EQ(run(Reduce::max), (std::vector<int>{1, 1, 1}));
      EXPECT_EQ(run(Reduce::min), (std::vector<int>{0, 0, 1}));
      if (dtype == DType::b8) EXPECT_THROW(reduce_function(Reduce::sum, dtype), Error);
      else EXPECT_EQ(run(Reduce::sum), (std::vector<int>{1, 1, 2}));
    });
}

TEST(Reduce, SumsOfInt32WrapAroundAndMaxAndMinPropagateNan) {
  std::int32_t big = 2147483647, one = 1;
  reduce_function(Reduce::sum, DType::i32)(reinterpret_cast<std::byte*>(&big), reinterpret_cast<std::byte*>(&one), 1);
  EXPECT_EQ(big, -2147483647 - 1);
  for (Reduce kind : {Reduce::max, Reduce::min})
    for (bool left : {true, false}) {
      float a = left ? std::numeric_limits<float>::quiet_NaN() : 1,
            b = left ? 1 : std::numeric_limits<float>::quiet_NaN();
      reduce_function(kind, DType::f32)(reinterpret_cast<std::byte*>(&a), reinterpret_cast<std::byte*>(&b), 1);
      EXPECT_NE(a, a) << name_of(kind) << (left ? " left" : " right");
    }
}

}  // namespace
}  // namespace karez::runtime
