// Tests of half types in the fast rows: products of bf16 against the plain rows, conversions against
// karez/tensor/half.h, and pointwise calls of mixed types.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "karez/device/test_highway.h"
#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/kernel_bench.h"

namespace karez::kernels {
namespace {
using tensor::Bf16;
using tensor::F16;

const KernelTable& table() {
  static const KernelTable all(cpu_kernels());
  return all;
}

CallSpec call_of(std::string op, std::vector<View> in, std::vector<View> out, Attrs attrs = {}) {
  CallSpec call;
  call.op = std::move(op);
  call.in = std::move(in);
  call.out = std::move(out);
  call.attrs = std::move(attrs);
  return call;
}

// A bf16 result may be the number next to the plain row's result, which is summed in double. f32 results are as close
// as those of f32 products.
void expect_as_plain(CallSpec call, const std::string& row, double tolerance) {
  for (int team : {1, 2}) {
    call.team = team;
    SCOPED_TRACE(cat(print(call), ", team of ", team, ", ", row));
    KernelBench fast(table().row(row), call), plain(table().row("plain." + call.op), call);
    for (KernelBench* bench : {&fast, &plain}) {
      fill_random(*bench, 7);
      bench->run();
    }
    for (std::size_t i = 0; i < fast.out.size(); ++i)
      EXPECT_LE(difference(fast.out[i], plain.out[i]), tolerance) << "output " << i;
  }
}
void expect_chosen_as_plain(const CallSpec& call, const std::string& row, double tolerance) {
  const auto choice = table().find(call);
  ASSERT_TRUE(choice.has_value()) << print(call);
  ASSERT_EQ(choice->kernel, row) << print(call);
  expect_as_plain(call, row, tolerance);
}

// Expects that oneDNN's row is chosen if it supports bf16 on this processor, otherwise the widening row. The widening
// row is tested on every processor.
void expect_product_as_plain(const CallSpec& call, double tolerance) {
  const std::string bf16_row = "onednn." + call.op, widened = bf16_row + "_widened";
  expect_chosen_as_plain(call, onednn_implementation(call).empty() ? widened : bf16_row, tolerance);
  expect_as_plain(call, widened, tolerance);
}

const View bf16(Shape shape) { return View(DType::bf16, std::move(shape)); }
const View f32(Shape shape) { return View(DType::f32, std::move(shape)); }

TEST(FastHalfPrecision, ProductsOfBf16AgreeWithThePlainRows) {
  for (const auto& [m, n, k] :
       std::vector<std::array<std::int64_t, 3>>{{1, 1, 1}, {7, 13, 5}, {64, 10, 100}, {33, 65, 17}, {64, 256, 784}})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        const std::vector<View> in = {bf16(ta ? Shape{k, m} : Shape{m, k}), bf16(tb ? Shape{n, k} : Shape{k, n})};
        const Attrs attrs{{"transpose_a", ta}, {"transpose_b", tb}, {"wide", true}};
        expect_product_as_plain(call_of("matmul", in, {f32({m, n})}, attrs), 2e-6 * std::sqrt(k) + 1e-6);
        expect_product_as_plain(call_of("matmul", in, {bf16({m, n})}, attrs), 0x1p-7);
      }
  for (const bool relu : {false, true})
    for (const View& y : {f32({64, 10}), bf16({64, 10})})
      expect_product_as_plain(call_of("matmul", {bf16({64, 100}), bf16({100, 10}), f32({10})}, {y},
                                      {{"bias", true}, {"relu", relu}, {"wide", true}}),
                              y.dtype == DType::f32 ? 2e-5 : 0x1p-7);
}

TEST(FastHalfPrecision, AReluAfterAProductKeepsNanAndProducesNoNegativeZero) {
  std::vector<Buffer> in;
  in.push_back(filled<Bf16>(Shape{5, 1},
                            {Bf16(-2), Bf16(3), Bf16(NAN), Bf16(-0.0), Bf16::from_bits(0xFFC0)}));  // the last is -NaN
  in.push_back(filled<Bf16>(Shape{1, 1}, {Bf16(1)}));
  const Attrs attrs{{"relu", true}, {"wide", true}};
  for (const char* row : {"onednn.matmul", "onednn.matmul_widened"}) {
    SCOPED_TRACE(row);
    if (!table().row(row).supports(call_of("matmul", {in[0].view, in[1].view}, {bf16({5, 1})}, attrs))) {
      EXPECT_STREQ(row, "onednn.matmul") << "not every processor supports bf16 products";
      continue;
    }
    const auto y = logical<Bf16>(run_row(table().row(row), in, {bf16({5, 1})}, attrs)[0]);
    EXPECT_EQ(y[0].bits, 0);
    EXPECT_EQ(static_cast<float>(y[1]), 3);
    EXPECT_TRUE(std::isnan(static_cast<float>(y[2])));
    EXPECT_EQ(y[3].bits, 0);
    EXPECT_TRUE(std::isnan(static_cast<float>(y[4])));
  }
}

TEST(FastHalfPrecision, ConvolutionsOfBf16AgreeWithThePlainRows) {
  const auto image = [](Shape shape, DType dtype) { return View(dtype, shape, channels_last(shape)); };
  for (const DType out : {DType::f32, DType::bf16}) {
    const double tolerance = out == DType::f32 ? 5e-5 : 0x1p-7;
    const View x = image({4, 8, 9, 9}, DType::bf16), y = image({4, 16, 7, 7}, DType::bf16), w = bf16({16, 8, 3, 3});
    expect_product_as_plain(call_of("conv2d", {x, w}, {image(y.shape, out)}, {{"wide", true}}), tolerance);
    expect_product_as_plain(
        call_of("conv2d_grad_input", {y, w}, {image(x.shape, out)}, {{"shape", x.shape}, {"wide", true}}), tolerance);
    expect_product_as_plain(
        call_of("conv2d_grad_weight", {x, y}, {View(out, w.shape)}, {{"kernel", Ints{3, 3}}, {"wide", true}}),
        2 * tolerance);
  }
}

// Tests conversions of all bit patterns, the midpoints between them, and random and special values.
template <class T> void expect_conversions() {
  std::vector<T> halves;
  for (int bits = 0; bits < 65536; ++bits) halves.push_back(T::from_bits(static_cast<std::uint16_t>(bits)));
  std::vector<float> floats = {0.0f, -0.0f, HUGE_VALF, -HUGE_VALF, NAN, 1e-45f, 65519.99f, 65520, 3.4e38f};
  std::mt19937 random(3);
  for (int i = 0; i < 100000; ++i) floats.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  for (const T half : halves)
    floats.push_back(std::bit_cast<float>(std::bit_cast<std::uint32_t>(static_cast<float>(half)) + 0x8000));
  const auto n = static_cast<std::int64_t>(floats.size());
  std::vector<Buffer> in;
  in.push_back(filled<float>(Shape{n}, floats));
  auto rounded = logical<T>(run_row(table().row("hwy.cast"), in, {View(dtype_of<T>(), Shape{n})})[0]);
  for (std::size_t i = 0; i < floats.size(); ++i) ASSERT_EQ(rounded[i].bits, T(floats[i]).bits) << floats[i];
  in.clear();
  in.push_back(filled<T>(Shape{65536}, halves));
  auto widened = logical<float>(run_row(table().row("hwy.cast"), in, {f32({65536})})[0]);
  for (std::size_t i = 0; i < halves.size(); ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(widened[i]), std::bit_cast<std::uint32_t>(static_cast<float>(halves[i])))
        << i;
}

// Tests conversions of the first `n` elements, which may end inside a vector.
template <class T> void expect_conversions_of_size(std::int64_t n) {
  std::vector<float> floats;
  std::vector<T> halves;
  for (std::int64_t i = 0; i < n; ++i) floats.push_back(static_cast<float>(i % 7) * 0.3f - 1), halves.emplace_back(i);
  std::vector<Buffer> in;
  in.push_back(filled<float>(Shape{n}, floats));
  const auto rounded = logical<T>(run_row(table().row("hwy.cast"), in, {View(dtype_of<T>(), Shape{n})})[0]);
  in[0] = filled<T>(Shape{n}, halves);
  const auto widened = logical<float>(run_row(table().row("hwy.cast"), in, {f32({n})})[0]);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    EXPECT_EQ(rounded[i].bits, T(floats[i]).bits) << i << " of " << n;
    EXPECT_EQ(widened[i], static_cast<float>(i)) << i << " of " << n;
  }
}

TEST(FastHalfPrecision, ConversionsAgreeWithTheHalfPrecisionClasses) {
  on_every_instruction_set([](const char* name) {
    SCOPED_TRACE(cat("on ", name));
    expect_conversions<Bf16>();
    expect_conversions<F16>();
    for (const std::int64_t n : {1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 511, 512, 513, 527, 1025}) {
      expect_conversions_of_size<F16>(std::min<std::int64_t>(n, 2048));
      expect_conversions_of_size<Bf16>(std::min<std::int64_t>(n, 256));
    }
  });
  for (const DType half : {DType::bf16, DType::f16}) {
    EXPECT_EQ(table().find(call_of("cast", {f32({5, 3})}, {View(half, {5, 3})}))->kernel, "hwy.cast");
    EXPECT_EQ(table().find(call_of("cast", {View(half, {5, 3})}, {f32({5, 3})}))->kernel, "hwy.cast");
    EXPECT_EQ(table().find(call_of("cast", {View(half, {5, 3})}, {View(DType::i64, {5, 3})}))->kernel, "plain.cast");
  }
}

// Computes x op y in f32 and rounds once; every size ends at another place inside a vector.
template <class T> void expect_rounded_once(std::int64_t n) {
  const auto x = [](std::int64_t i) {
    if (i % 97 == 5) return T(-HUGE_VALF);
    if (i % 97 == 6) return T(NAN);
    if (i % 97 == 7) return T(-0.0f);
    return T::from_bits(static_cast<std::uint16_t>(i * 2654435761u >> 7));
  };
  const auto y = [](std::int64_t i) { return T(static_cast<float>(i % 31) * 0.37f - 4); };
  std::vector<T> xs, ys;
  for (std::int64_t i = 0; i < n; ++i) xs.push_back(x(i)), ys.push_back(y(i));
  const auto compare = [&](const char* expr, auto op) {
    std::vector<Buffer> in;
    in.push_back(filled<T>(Shape{n}, xs));
    in.push_back(filled<T>(Shape{n}, ys));
    const auto out =
        logical<T>(run_row(table().row("hwy.pointwise"), in, {View(dtype_of<T>(), {n})}, {{"expr", expr}})[0]);
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const T expected(op(static_cast<float>(xs[i]), static_cast<float>(ys[i])));
      if (std::isnan(static_cast<float>(expected))) EXPECT_TRUE(std::isnan(static_cast<float>(out[i]))) << expr;
      else EXPECT_EQ(out[i].bits, expected.bits) << expr << " at " << i << " of " << n;
    }
  };
  compare("x0 * x1", [](float a, float b) { return a * b; });
  compare("x0 - x1", [](float a, float b) { return a - b; });
  compare("x0 * 3", [](float a, float) { return a * 3; });
  compare("2 - x0", [](float a, float) { return 2 - a; });
  compare("-x0", [](float a, float) { return -a; });
  compare("max(x0, 0)", [](float a, float) { return a != a ? a : a > 0 ? a : 0.0f; });
  compare("select(x1, x0, x1)", [](float a, float b) { return b != 0 ? a : b; });
  compare("x0 * x0 + x0", [](float a, float) {
    volatile float square = a * a;  // without a fused multiplication and addition
    return square + a;
  });
}

TEST(FastHalfPrecision, ResultsOfPointwiseCallsAreRoundedOnceFromF32) {
  on_every_instruction_set([](const char* name) {
    SCOPED_TRACE(cat("on ", name));
    for (const std::int64_t n : {1, 7, 8, 9, 15, 16, 17, 511, 512, 513, 2071}) {
      expect_rounded_once<F16>(n);
      expect_rounded_once<Bf16>(n);
    }
  });
}

TEST(FastHalfPrecision, TheExponentialOfEveryF16IsThatOfF32Rounded) {
  std::vector<F16> x;
  for (unsigned bits = 0; bits < 65536; ++bits) x.push_back(F16::from_bits(static_cast<std::uint16_t>(bits)));
  std::vector<Buffer> in;
  in.push_back(filled<F16>(Shape{65536}, x));
  on_every_instruction_set([&](const char* name) {
    const auto exp_as = [&](DType dtype) {
      return std::move(run_row(table().row("hwy.pointwise"), in, {View(dtype, {65536})}, {{"expr", "exp(x0)"}})[0]);
    };
    Buffer halves = exp_as(DType::f16), floats = exp_as(DType::f32);
    int wrong = 0;
    for (std::int64_t i = 0; i < 65536; ++i) wrong += halves.at<F16>({i}).bits != F16(floats.at<float>({i})).bits;
    EXPECT_EQ(wrong, 0) << "on " << name;
  });
}

TEST(FastHalfPrecision, PointwiseCallsReadAndWriteHalvesDirectly) {
  for (const DType half : {DType::bf16, DType::f16}) {
    const double tolerance = half == DType::bf16 ? 0x1p-7 : 0x1p-10;
    const auto h = [&](Shape shape, Strides strides = {}) {
      return strides.empty() ? View(half, shape) : View(half, shape, strides);
    };
    expect_chosen_as_plain(
        call_of("pointwise", {h({300, 40}), f32({300, 40})}, {h({300, 40})}, {{"expr", "x0 * x1 + 1"}}),
        "hwy.pointwise", tolerance);
    expect_chosen_as_plain(
        call_of("pointwise", {h({300, 40}), h({300, 40}, {0, 1})}, {f32({300, 40})}, {{"expr", "max(x0 - x1, 0)"}}),
        "hwy.pointwise", 1e-6);
    expect_chosen_as_plain(
        call_of("pointwise", {h({300, 40}, {1, 0}), h({300, 40})}, {h({300, 40})}, {{"expr", "tanh(x0) * x1"}}),
        "hwy.pointwise", tolerance);
    expect_chosen_as_plain(call_of("pointwise", {h({7}), h({7}, {0})}, {View(DType::b8, {7})}, {{"expr", "x0 < x1"}}),
                           "hwy.pointwise", 0);
    expect_chosen_as_plain(call_of("pointwise", {View(DType::b8, {700}), h({700}), h({700})}, {h({700})},
                                   {{"expr", "select(x0, x1, x2)"}}),
                           "hwy.pointwise", 0);
  }
}

}  // namespace
}  // namespace karez::kernels
