// Compares the fast pointwise row with the plain row: every operation, types, broadcast patterns, special values.
#include <gtest/gtest.h>

#include <limits>

#include "karez/base/expr.h"
#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/kernel_bench.h"
#include "karez/kernels/cpu/test_strides.h"

namespace karez::kernels {
namespace {

const KernelTable& table() {
  static const KernelTable all(cpu_kernels());
  return all;
}

CallSpec pointwise(const std::string& expr, std::vector<View> in, View out, int team = 1) {
  CallSpec call;
  call.op = "pointwise";
  call.attrs.set("expr", print(parse_expr(expr)));
  call.in = std::move(in);
  call.out = {std::move(out)};
  call.team = team;
  return call;
}

View dense(Shape shape, DType dtype = DType::f32) { return View(dtype, std::move(shape)); }
View strided(Shape shape, Strides strides, DType dtype = DType::f32) {
  return View(dtype, std::move(shape), std::move(strides));
}

void expect_as_plain(const CallSpec& call, double tolerance, unsigned seed = 7) {
  SCOPED_TRACE(cat(print(call), ", team of ", call.team));
  const auto choice = table().find(call);
  ASSERT_TRUE(choice.has_value());
  ASSERT_EQ(choice->kernel, "hwy.pointwise");
  KernelBench fast(table().row("hwy.pointwise"), call), plain(table().row("plain.pointwise"), call);
  for (KernelBench* bench : {&fast, &plain}) {
    fill_random(*bench, seed);
    bench->run();
    bench->run();
  }
  EXPECT_LE(difference(fast.out[0], plain.out[0]), tolerance);
}

const char* const unary[] = {"-x",         "!x",     "exp(x)", "log(x)", "sqrt(x)", "rsqrt(x)", "tanh(x)",
                             "sigmoid(x)", "erf(x)", "phi(x)", "abs(x)", "sin(x)",  "cos(x)",   "max(x, 0)"};
const char* const binary[] = {"x + y",  "x - y",  "x * y",  "x / y",  "x < y",       "x <= y",    "x > y",    "x >= y",
                              "x == y", "x != y", "x && y", "x || y", "pow(x, 2.5)", "max(x, y)", "min(x, y)"};

// Returns values for which implementations often differ, and a sweep from -12 to 12.
std::vector<float> specials() {
  std::vector<float> out{0.0f,    -0.0f, 1.0f,   -1.0f, 0.5f,   HUGE_VALF, -HUGE_VALF, NAN,  1e-38f,
                         -1e-38f, 3e38f, -3e38f, 88.0f, -88.0f, 104.5f,    -104.5f,    1e5f, 12345.678f};
  for (float x = -12; x < 12; x += 0.0137f) out.push_back(x);
  return out;
}

// Each expression runs as generated code, if there is any, and in the interpreter, which the double negation forces.
TEST(FastPointwise, EveryFunctionAgreesWithThePlainRowOnSpecialValues) {
  const std::vector<float> values = specials();
  const auto n = static_cast<std::int64_t>(values.size());
  for (const char* text : unary)
    for (const std::string& expr : {std::string(text), cat("-(-(", text, "))")}) {
      CallSpec call = pointwise(expr, {dense({n})}, dense({n}));
      KernelBench fast(table().row("hwy.pointwise"), call), plain(table().row("plain.pointwise"), call);
      for (KernelBench* bench : {&fast, &plain}) {
        std::memcpy(bench->in[0].bytes.data(), values.data(), values.size() * 4);
        bench->run();
      }
      for (std::int64_t i = 0; i < n; ++i) {
        const float result = fast.out[0].at<float>({i}), expected = plain.out[0].at<float>({i});
        if (std::isnan(expected) || std::isinf(expected))
          EXPECT_TRUE(std::isnan(expected) ? std::isnan(result) : result == expected)
              << expr << " of " << values[static_cast<std::size_t>(i)] << " is " << result << ", expected " << expected;
        else
          EXPECT_LE(std::abs(result - expected),
                    4e-6f * std::abs(expected) + 1e-37f +
                        (std::string(text).find("(x)") != std::string::npos && text[0] != 'e' ? 2e-6f : 0.0f))
              << expr << " of " << values[static_cast<std::size_t>(i)] << " is " << result << ", expected " << expected;
      }
    }
}

// Boolean expressions run with f32 results and with bool results. For comparisons there is generated code with bool
// results only, so f32 results of comparisons are computed by the interpreter.
TEST(FastPointwise, EveryOperationAgreesWithThePlainRowOnPairsOfSpecialValues) {
  const std::vector<float> values{0.0f, -0.0f, 1.0f, HUGE_VALF, -HUGE_VALF, NAN, -2.0f};
  std::vector<float> x, y;
  for (int round = 0; round < 3; ++round)  // more elements than a vector has lanes, and a tail
    for (float a : values)
      for (float b : values) x.push_back(a), y.push_back(b);
  const auto n = static_cast<std::int64_t>(x.size());
  for (const char* text : binary)
    for (const std::string& expr : {std::string(text), cat("-(-(", text, "))")})
      for (const DType dtype : {DType::f32, DType::b8}) {
        if (dtype == DType::b8 && !is_boolean(parse_expr(expr)->kind)) continue;
        CallSpec call = pointwise(expr, {dense({n}), dense({n})}, dense({n}, dtype));
        KernelBench fast(table().row("hwy.pointwise"), call), plain(table().row("plain.pointwise"), call);
        for (KernelBench* bench : {&fast, &plain}) {
          std::memcpy(bench->in[0].bytes.data(), x.data(), x.size() * 4);
          std::memcpy(bench->in[1].bytes.data(), y.data(), y.size() * 4);
          bench->run();
        }
        EXPECT_EQ(difference(fast.out[0], plain.out[0]), 0) << expr << " as " << dtype;
      }
}

TEST(FastPointwise, AllSizesTeamsAndExpressionLengthsAreSupported) {
  for (const std::int64_t n : {1, 3, 15, 16, 17, 511, 512, 513, 5000, 100003})
    for (const int team : {1, 2}) {
      expect_as_plain(pointwise("max(x, 0)", {dense({n})}, dense({n}), team), 0);
      expect_as_plain(pointwise("select(x > 0, y, 0)", {dense({n}), dense({n})}, dense({n}), team), 0);
      expect_as_plain(pointwise("tanh(x * y + z) * (x - 0.5) + exp(-abs(y)) / (2 + z * z)",
                                {dense({n}), dense({n}), dense({n})}, dense({n}), team),
                      1e-5);
      expect_as_plain(pointwise("x0 + x1 * x2 - x3 * x4", std::vector<View>(5, dense({n})), dense({n}), team), 1e-5);
    }
  expect_as_plain(pointwise("x * 3 + 1", {dense({})}, dense({})), 0);
}

TEST(FastPointwise, BoolOperandsAndResultsAreSupported) {
  for (const std::int64_t n : {1, 17, 1000, 70000})
    for (const int team : {1, 2}) {
      expect_as_plain(pointwise("x < y", {dense({n}), dense({n})}, dense({n}, DType::b8), team), 0);
      expect_as_plain(pointwise("x * 2 < y + 1", {dense({n}), dense({n})}, dense({n}, DType::b8), team), 0);
      expect_as_plain(pointwise("select(x, y, z)", {dense({n}, DType::b8), dense({n}), dense({n})}, dense({n}), team),
                      0);
      expect_as_plain(
          pointwise("select(x, y, z * 3)", {dense({n}, DType::b8), dense({n}), dense({n})}, dense({n}), team), 0);
      expect_as_plain(pointwise("x && !y", {dense({n}, DType::b8), dense({n}, DType::b8)}, dense({n}, DType::b8), team),
                      0);
    }
}

TEST(FastPointwise, ScalarRowAndColumnOperandsAreSupported) {
  for (const auto& [m, n] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {64, 10}, {64, 100}, {3, 1}, {1, 7}, {5, 512}, {5, 513}, {7, 1500}, {3000, 16}, {2, 3}})
    for (const int team : {1, 2})
      for (const char* expr : {"x + y", "exp(x - y) * 0.5"}) {
        expect_as_plain(pointwise(expr, {dense({m, n}), strided({m, n}, {0, 1})}, dense({m, n}), team), 1e-5);
        expect_as_plain(pointwise(expr, {dense({m, n}), strided({m, n}, {1, 0})}, dense({m, n}), team), 1e-5);
        expect_as_plain(pointwise(expr, {dense({m, n}), strided({m, n}, {0, 0})}, dense({m, n}), team), 1e-5);
        if (n > 1)
          expect_as_plain(pointwise(expr, {strided({m, n}, {0, 0}), strided({m, n}, {3, 0})}, dense({m, n}), team),
                          1e-5);
      }
  // A bias over channels-last images, and a mask of bools along rows.
  const Shape shape{2, 16, 5, 5};
  expect_as_plain(pointwise("x + y", {View(DType::f32, shape, channels_last(shape)), strided(shape, {0, 1, 0, 0})},
                            View(DType::f32, shape, channels_last(shape))),
                  0);
  expect_as_plain(pointwise("select(x, y, 0)", {strided({40, 9}, {0, 1}, DType::b8), dense({40, 9})}, dense({40, 9})),
                  0);
}

TEST(FastPointwise, OtherStridesAndTypesRunOnThePlainRow) {
  const auto kernel = [](const CallSpec& call) { return table().find(call)->kernel; };
  EXPECT_EQ(kernel(pointwise("x + y", {dense({4, 5}), strided({4, 5}, {1, 4})}, dense({4, 5}))), "plain.pointwise");
  EXPECT_EQ(kernel(pointwise("x + y", {dense({4, 5}), strided({4, 5}, {10, 2})}, dense({4, 5}))), "plain.pointwise");
  EXPECT_EQ(kernel(pointwise("x + y", {dense({4}, DType::i32), dense({4}, DType::i32)}, dense({4}, DType::i64))),
            "plain.pointwise");
  EXPECT_EQ(kernel(pointwise("x + y", {dense({0}), dense({0})}, dense({0}))), "plain.pointwise");
}

TEST(FastPointwise, AResultMayOverwriteAnOperand) {
  CallSpec call = pointwise("tanh(x) * y + 1", {dense({1000}), dense({1000})}, dense({1000}));
  KernelBench separate(table().row("hwy.pointwise"), call), in_place(table().row("hwy.pointwise"), call);
  for (KernelBench* bench : {&separate, &in_place}) fill_random(*bench, 2);
  in_place.outs[0] = in_place.ins[1];
  separate.run();
  in_place.run();
  EXPECT_EQ(difference(separate.out[0], in_place.in[1]), 0);
}

}  // namespace
}  // namespace karez::kernels
