// Compares plain kernels of pointwise calls, casts and source ops with values computed by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "karez/base/hash.h"
#include "karez/base/philox.h"
#include "karez/kernels/cpu/kernel_buffer.h"

namespace karez::kernels {
namespace {

using f32s = std::vector<float>;
using f64s = std::vector<double>;
using i32s = std::vector<std::int32_t>;
using i64s = std::vector<std::int64_t>;
using bools = std::vector<bool>;

Attrs expr(const char* text) { return Attrs({{"expr", std::string(text)}}); }
template <class T> Buffer list(std::vector<T> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return filled<T>({size}, values);
}
View vec(DType dtype, std::int64_t size) { return View(dtype, {size}); }

TEST(Pointwise, TheResultIsTheValueOfTheExpression) {
  auto out = run_plain("pointwise", {list<float>({1, 2, 3}), list<float>({10, 20, 30})}, {vec(DType::f32, 3)},
                       expr("x1 - x0 * 2"));
  EXPECT_EQ(logical<float>(out[0]), (f32s{8, 16, 24}));
}

TEST(Pointwise, F32IsComputedInDoubleAndRoundedOnce) {
  auto out =
      run_plain("pointwise", {list<float>({1}), list<float>({1e-9f})}, {vec(DType::f32, 1)}, expr("x0 + x1 - x0"));
  EXPECT_FLOAT_EQ(logical<float>(out[0])[0], 1e-9f);
}

TEST(Pointwise, EveryElementOfManyBlocksIsWritten) {
  f64s values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) / 100;
  auto out = run_plain("pointwise", {list<double>(values)}, {vec(DType::f64, 1000)}, expr("tanh(x0) + 1"));
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(out[0].at<double>({static_cast<std::int64_t>(i)}), std::tanh(values[i]) + 1);
}

TEST(Pointwise, AZeroStrideRepeatsAnElement) {
  auto out = run_plain("pointwise", {filled<float>({2, 2}, {1, 2, 3, 4}), Buffer(View(DType::f32, {2, 2}, {0, 1}))},
                       {View(DType::f32, {2, 2})}, expr("x0"));
  Buffer bias(View(DType::f32, {2, 2}, {0, 1}));
  bias.at<float>({0, 0}) = 10;
  bias.at<float>({0, 1}) = 20;
  out =
      run_plain("pointwise", {filled<float>({2, 2}, {1, 2, 3, 4}), bias}, {View(DType::f32, {2, 2})}, expr("x0 + x1"));
  EXPECT_EQ(logical<float>(out[0]), (f32s{11, 22, 13, 24}));
}

TEST(Pointwise, ComparisonsGiveBoolsAndSelectReadsThem) {
  auto less = run_plain("pointwise", {list<float>({1, 5}), list<float>({2, 2})}, {vec(DType::b8, 2)}, expr("x0 < x1"));
  EXPECT_EQ(logical<bool>(less[0]), (bools{true, false}));
  auto out = run_plain("pointwise", {less[0], list<float>({1, 1}), list<float>({9, 9})}, {vec(DType::f32, 2)},
                       expr("select(x0, x1, x2)"));
  EXPECT_EQ(logical<float>(out[0]), (f32s{1, 9}));
  auto both = run_plain("pointwise", {less[0], list<bool>({true, true})}, {vec(DType::b8, 2)}, expr("x0 && !x1 || x1"));
  EXPECT_EQ(logical<bool>(both[0]), (bools{true, true}));
}

TEST(Pointwise, IntegersWrapAroundAndKeepAllTheirBits) {
  auto out = run_plain("pointwise", {list<std::int32_t>({std::numeric_limits<std::int32_t>::max()})},
                       {vec(DType::i32, 1)}, expr("x0 + 1"));
  EXPECT_EQ(logical<std::int32_t>(out[0]), (i32s{std::numeric_limits<std::int32_t>::min()}));
  auto big =
      run_plain("pointwise", {list<std::int64_t>({(std::int64_t{1} << 53) + 1})}, {vec(DType::i64, 1)}, expr("x0 * 2"));
  EXPECT_EQ(logical<std::int64_t>(big[0]), (i64s{(std::int64_t{1} << 54) + 2}));
}

TEST(Pointwise, AnIntegerDividedByZeroIsAnError) {
  EXPECT_THROW(
      run_plain("pointwise", {list<std::int32_t>({1}), list<std::int32_t>({0})}, {vec(DType::i32, 1)}, expr("x0 / x1")),
      Error);
}

TEST(Pointwise, FunctionsOfIntegersAndMissingVariablesAreNotSupported) {
  CallSpec call;
  call.op = "pointwise";
  call.in = {vec(DType::i32, 1)};
  call.out = call.in;
  const KernelRow row = KernelTable(plain_kernels()).row("plain.pointwise");
  for (const char* text : {"exp(x0)", "x0 + x1"}) {
    call.attrs = expr(text);
    EXPECT_FALSE(row.supports(call)) << text;
  }
}

TEST(Pointwise, NanIsPropagatedByMaxAndRelu) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  auto out = run_plain("pointwise", {list<float>({nan, -1, 2})}, {vec(DType::f32, 3)}, expr("max(x0, 0)"));
  EXPECT_TRUE(std::isnan(logical<float>(out[0])[0]));
  EXPECT_EQ(logical<float>(out[0])[1], 0);
}

TEST(Pointwise, TheOutputMayOverwriteAnInput) {
  const KernelRow row = KernelTable(plain_kernels()).row("plain.pointwise");
  CallSpec call;
  call.op = "pointwise";
  call.attrs = expr("x0 * 2 + x0");
  call.in = call.out = {vec(DType::f32, 300)};
  Buffer x = list<float>(f32s(300, 2));
  std::vector<std::byte> workspace(static_cast<std::size_t>(row.workspace(call)));
  std::byte* address[] = {x.bytes.data()};
  row.prepare(call)({address, address, workspace.data()});
  EXPECT_EQ(logical<float>(x), f32s(300, 6));
}

TEST(Cast, ACastRoundsTowardsZeroAndSaturates) {
  auto out = run_plain("cast", {list<float>({1.9f, -1.9f, 1e20f, std::numeric_limits<float>::quiet_NaN()})},
                       {vec(DType::i32, 4)});
  EXPECT_EQ(logical<std::int32_t>(out[0]), (i32s{1, -1, std::numeric_limits<std::int32_t>::max(), 0}));
  EXPECT_EQ(logical<bool>(run_plain("cast", {list<float>({0, 0.5f, -2})}, {vec(DType::b8, 3)})[0]),
            (bools{false, true, true}));
  EXPECT_EQ(logical<double>(run_plain("cast", {list<bool>({true, false})}, {vec(DType::f64, 2)})[0]), (f64s{1, 0}));
}

TEST(Constant, AConstantIsGivenAsAValueOrAsBytes) {
  EXPECT_EQ(logical<float>(run_plain("constant", {}, {vec(DType::f32, 2)}, {{"value", 1.5}})[0]), (f32s{1.5, 1.5}));
  const std::int64_t big = (std::int64_t{1} << 62) + 1;
  EXPECT_EQ(logical<std::int64_t>(run_plain("constant", {}, {vec(DType::i64, 1)}, {{"value", Attr(big)}})[0]),
            (i64s{big}));
  EXPECT_EQ(logical<bool>(run_plain("constant", {}, {vec(DType::b8, 1)}, {{"value", true}})[0]), (bools{true}));
  auto out = run_plain("constant", {}, {View(DType::i32, {2, 1}, {1, 5})}, {{"data", std::string("01000000ffffffff")}});
  EXPECT_EQ(logical<std::int32_t>(out[0]), (i32s{1, -1}));
  EXPECT_THROW(run_plain("constant", {}, {vec(DType::i32, 1)}, {{"data", std::string("0100")}}), Error);
  EXPECT_THROW(run_plain("constant", {}, {vec(DType::b8, 1)}, {{"data", std::string("0g")}}), Error);
}

TEST(Iota, ElementsCountAlongTheAxisFromTheStart) {
  auto out = run_plain("iota", {}, {View(DType::i64, {2, 3})},
                       {{"axis", Attr(std::int64_t{1})}, {"start", Attr(std::int64_t{5})}});
  EXPECT_EQ(logical<std::int64_t>(out[0]), (i64s{5, 6, 7, 5, 6, 7}));
}

TEST(RandomUniform, AShardHasTheNumbersOfTheGlobalTensor) {
  const Attr site(std::int64_t{7});
  auto global =
      run_plain("random_uniform", {list<std::int64_t>({42, 3})}, {View(DType::f32, {4, 6})}, {{"site", site}});
  auto part = run_plain("random_uniform", {list<std::int64_t>({42, 3})}, {View(DType::f32, {2, 3}, {1, 2})},
                        {{"site", site}, {"begin", Ints{1, 2}}, {"logical", Ints{4, 6}}});
  for (std::int64_t i = 0; i < 2; ++i)
    for (std::int64_t j = 0; j < 3; ++j) EXPECT_EQ(part[0].at<float>({i, j}), global[0].at<float>({1 + i, 2 + j}));
  const std::uint32_t word = philox_word(42, Hash().add(std::uint64_t{7}).add(std::uint64_t{3}).value(), 8);
  EXPECT_EQ(global[0].at<float>({1, 2}), unit_float(word));
  EXPECT_NE(global[0].at<float>({0, 0}), global[0].at<float>({0, 1}));
}

}  // namespace
}  // namespace karez::kernels
