// Tests of maximum and minimum, of attribute casts, and of expressions near overflow and cancellation.
#include "karez/base/ieee_min_max.h"

#include <gtest/gtest.h>

#include <limits>

#include "karez/base/attr_cast.h"
#include "karez/base/expr.h"

namespace karez::base {
namespace {

template <class T> void check_extremes() {
  const T nan = std::numeric_limits<T>::quiet_NaN(), inf = std::numeric_limits<T>::infinity();
  for (T x : {T{1}, -inf, inf, T{0}, nan}) {
    EXPECT_TRUE(std::isnan(ieee_maximum(x, nan)) && std::isnan(ieee_maximum(nan, x)) &&
                std::isnan(ieee_minimum(x, nan)) && std::isnan(ieee_minimum(nan, x)));
    EXPECT_TRUE(std::isnan(apply<T>(ExprKind::max, nan, x)) && std::isnan(apply<T>(ExprKind::min, x, nan)));
  }
  EXPECT_FALSE(std::signbit(ieee_maximum(T{0}, -T{0})) || std::signbit(ieee_maximum(-T{0}, T{0})));
  EXPECT_TRUE(std::signbit(ieee_minimum(T{0}, -T{0})) && std::signbit(ieee_minimum(-T{0}, T{0})));
  EXPECT_TRUE(std::signbit(ieee_maximum(-T{0}, -T{0})));
  EXPECT_FALSE(std::signbit(ieee_minimum(T{0}, T{0})));
  EXPECT_EQ(ieee_maximum(-inf, T{-1}), -1);
  EXPECT_EQ(ieee_minimum(T{2}, inf), 2);
}

TEST(IeeeMinMax, NanPropagatesAndZerosAreOrdered) {
  check_extremes<float>();
  check_extremes<double>();
  EXPECT_EQ(ieee_maximum(3, -4), 3);
  EXPECT_EQ(ieee_minimum<std::int64_t>(3, -4), -4);
}

TEST(AttrCast, ACastKeepsAllBitsOrThrows) {
  constexpr std::int64_t max_int = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(attr_cast<std::int64_t>(Attr(max_int)), max_int);
  EXPECT_EQ(attr_cast<std::int64_t>(Attr(-9223372036854775808.0)), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(attr_cast<std::int32_t>(Attr(-2147483648.0)), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(attr_cast<float>(Attr(std::int64_t{3})), 3.0f);
  EXPECT_EQ(attr_cast<bool>(Attr(1.0)), true);
  for (double invalid : {9223372036854775808.0, HUGE_VAL, -HUGE_VAL, std::nan(""), 0.5, -1e300}) {
    EXPECT_THROW(attr_cast<std::int64_t>(Attr(invalid)), Error) << invalid;
    EXPECT_THROW(attr_cast<std::int32_t>(Attr(invalid)), Error) << invalid;
  }
  EXPECT_THROW(attr_cast<std::int32_t>(Attr(2147483648.0)), Error);
  EXPECT_THROW(attr_cast<std::int32_t>(Attr(std::int64_t{-2147483649})), Error);
  EXPECT_THROW(attr_cast<bool>(Attr(std::int64_t{2})), Error);
  EXPECT_THROW(attr_cast<float>(Attr(std::string("1"))), Error);
  EXPECT_EQ(std::get<std::int64_t>(attr_at(Attrs{{"value", max_int}}, "value")), max_int);
  EXPECT_THROW(attr_at(Attrs{{"value", max_int}}, "values"), Error);
}

// The implementations neither overflow nor cancel where the mathematical function is well behaved.
TEST(Expr, SigmoidAndPhiAreAccurateInTheTails) {
  EXPECT_EQ(apply<double>(ExprKind::sigmoid, -1000), 0);
  EXPECT_EQ(apply<double>(ExprKind::sigmoid, 1000), 1);
  EXPECT_NEAR(apply<double>(ExprKind::sigmoid, -740) / std::exp(-740.0), 1, 1e-2) << "a subnormal";
  EXPECT_NEAR(apply<float>(ExprKind::sigmoid, -90.0f) / std::exp(-90.0f), 1, 1e-5);
  EXPECT_TRUE(std::isnan(apply<double>(ExprKind::sigmoid, std::nan(""))));
  EXPECT_EQ(apply<double>(ExprKind::phi, 0), 0.5);
  EXPECT_NEAR(apply<double>(ExprKind::phi, -10) / 7.61985302416052606597e-24, 1,
              1e-13);  // Abramowitz and Stegun, table 26.2
  EXPECT_NEAR(apply<double>(ExprKind::phi, 1.96), 0.97500210485177952, 1e-15);
  const Expr slope = derive(parse_expr("phi(2 * x)"), 0);
  EXPECT_NEAR(evaluate<double>(slope, std::vector<double>{0.3}), 2 * 0.33322460289179962, 1e-15);
}

}  // namespace
}  // namespace karez::base
