// Tests of the collectives' reduce functions: NaN, zeros of both signs, and integer limits.
#include "karez/runtime/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "karez/base/error.h"

namespace karez::runtime {
namespace {

template <class T> std::vector<T> reduced(std::string_view kind, std::vector<T> into, const std::vector<T>& from) {
  reduce_function(kind, dtype_of<T>())(reinterpret_cast<std::byte*>(into.data()),
                                       reinterpret_cast<const std::byte*>(from.data()),
                                       static_cast<std::int64_t>(into.size()));
  return into;
}

template <class T> void check_floats() {
  const T nan = std::numeric_limits<T>::quiet_NaN(), inf = std::numeric_limits<T>::infinity();
  const std::vector<T> a{nan, 1, nan, inf, T{0}, -T{0}, -inf, 3}, b{1, nan, nan, -inf, -T{0}, T{0}, -inf, 2};
  const std::vector<T> most = reduced("max", a, b), least = reduced("min", a, b), sum = reduced("sum", a, b);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(std::isnan(most[i]) && std::isnan(least[i]) && std::isnan(sum[i])) << i;
  EXPECT_TRUE(most[3] == inf && least[3] == -inf && std::isnan(sum[3]));
  for (std::size_t i : {4, 5})
    EXPECT_TRUE(most[i] == 0 && !std::signbit(most[i]) && least[i] == 0 && std::signbit(least[i])) << i;
  EXPECT_TRUE(most[6] == -inf && least[6] == -inf);
  EXPECT_TRUE(most[7] == 3 && least[7] == 2 && sum[7] == 5);
  EXPECT_EQ(reduced<T>("max", {b}, a)[7], 3) << "in either order";
}

TEST(Reduce, ANanWinsOnEitherSideAndZerosAreOrdered) {
  check_floats<float>();
  check_floats<double>();
}

TEST(Reduce, IntegersWrapAndReachTheirLimits) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max(),
                         least = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(reduced<std::int64_t>("sum", {most}, {1})[0], least);
  EXPECT_EQ(reduced<std::int64_t>("max", {least}, {least})[0], least);
  EXPECT_EQ(reduced<std::int64_t>("min", {most}, {most - 1})[0], most - 1);
  EXPECT_EQ(reduced<std::int32_t>("sum", {std::numeric_limits<std::int32_t>::min()}, {-1})[0],
            std::numeric_limits<std::int32_t>::max());
}

TEST(Reduce, UnknownKindsAndSumsOfBoolsAreRefused) {
  EXPECT_EQ(reduce_function("", DType::f32), nullptr);
  EXPECT_THROW(reduce_function("mean", DType::f32), Error);
  EXPECT_THROW(reduce_function("sum", DType::b8), Error);
}

}  // namespace
}  // namespace karez::runtime
