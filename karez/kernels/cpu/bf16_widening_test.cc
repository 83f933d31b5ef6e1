// Tests of bf16 products computed in f32: any strides, one rounding to nearest even, and the calls that the rows
// support.
#include "karez/kernels/cpu/bf16_widening.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/kernel_bench.h"

namespace karez::kernels {
namespace {
using tensor::Bf16;

const KernelTable& table() {
  static const KernelTable all(cpu_kernels());
  return all;
}

CallSpec call_of(std::string op, std::vector<View> in, View out, Attrs attrs = {}) {
  CallSpec call;
  call.op = std::move(op);
  call.in = std::move(in);
  call.out = {std::move(out)};
  call.attrs = std::move(attrs.set("wide", true));
  return call;
}
View bf16(Shape shape, Strides strides = {}) {
  return strides.empty() ? View(DType::bf16, std::move(shape))
                         : View(DType::bf16, std::move(shape), std::move(strides));
}

// Returns the bytes of a result with its elements set to zero, so that only the bytes between elements can differ.
std::vector<std::byte> bytes_between_elements(Buffer result) {
  for_each_index(result.view.shape, [&](const auto& index) {
    if (result.view.dtype == DType::f32) result.at<float>(index) = 0;
    else result.at<Bf16>(index) = Bf16(0);
  });
  return result.bytes;
}

void expect_as_plain(CallSpec call, const std::string& row) {
  for (const int team : {1, 2, 3}) {
    call.team = team;
    SCOPED_TRACE(cat(print(call), " on ", row, ", team of ", team));
    ASSERT_TRUE(table().row(row).supports(call));
    KernelBench widened(table().row(row), call), plain(table().row("plain." + call.op), call);
    for (KernelBench* bench : {&widened, &plain}) {
      fill_random(*bench, 11);
      bench->run();
      bench->run();
    }
    EXPECT_LE(difference(widened.out[0], plain.out[0]), call.out[0].dtype == DType::f32 ? 5e-5 : 0x1p-7);
    EXPECT_EQ(bytes_between_elements(widened.out[0]), bytes_between_elements(plain.out[0]))
        << "bytes between the elements were written";
  }
}

TEST(Bf16Widening, OperandsAndResultsMayHaveGapsAndAnyOrderOfDimensions) {
  const std::int64_t m = 70, k = 33, n = 21;
  for (const View& a : {bf16({m, k}), bf16({m, k}, {k + 3, 1}), bf16({m, k}, {1, m}), bf16({m, k}, {2, 2 * m + 1})})
    for (const View& y : {bf16({m, n}), bf16({m, n}, {n + 5, 1}), bf16({m, n}, {1, m + 2}), bf16({m, n}, {3 * n, 3})}) {
      expect_as_plain(call_of("matmul", {a, bf16({k, n}, {2 * n, 2})}, y), "onednn.matmul_widened");
      if (y.strides[0] == 1) continue;  // oneDNN adds no bias to a column-major result
      expect_as_plain(call_of("matmul", {a, bf16({k, n}), View(DType::f32, {n})}, y, {{"bias", true}, {"relu", true}}),
                      "onednn.matmul_widened");
    }
  expect_as_plain(
      call_of("matmul", {bf16({3, 2, 9, 5}, {120, 5, 10, 1}), bf16({3, 2, 5, 7})}, View(DType::f32, {3, 2, 9, 7})),
      "onednn.matmul_widened");
  expect_as_plain(call_of("matmul", {bf16({300, 400}), bf16({400, 200})}, bf16({300, 200})),
                  "onednn.matmul_widened");  // a team shares the copies
}

TEST(Bf16Widening, ConvolutionsSupportChannelsLastWithGaps) {
  const auto image = [](Shape shape, std::int64_t gap) {
    const std::int64_t c = shape[1] + gap, w = shape[3] * c, h = shape[2] * w;
    return bf16(shape, {h, 1, w, c});
  };
  for (const std::int64_t gap : {0, 3}) {
    const View x = image({4, 8, 9, 9}, gap), y = image({4, 16, 7, 7}, gap), w = bf16({16, 8, 3, 3});
    expect_as_plain(call_of("conv2d", {x, w, View(DType::f32, {16})}, y, {{"bias", true}, {"relu", true}}),
                    "onednn.conv2d_widened");
    expect_as_plain(call_of("conv2d_grad_input", {y, w}, x, {{"shape", x.shape}}), "onednn.conv2d_grad_input_widened");
    expect_as_plain(call_of("conv2d_grad_weight", {x, y}, w, {{"kernel", Ints{3, 3}}}),
                    "onednn.conv2d_grad_weight_widened");
    expect_as_plain(call_of("conv2d", {image({4, 1, 9, 9}, gap), bf16({16, 1, 3, 3})}, y), "hwy.conv2d_widened");
  }
}

TEST(Bf16Widening, AResultIsRoundedOnceToNearestEven) {
  const float half_ulp = 0x1p-8f,
              largest = std::numeric_limits<Bf16>::max();  // half_ulp is half a unit in the last place of 1
  const auto b = [](std::vector<float> values) { return std::vector<Bf16>(values.begin(), values.end()); };
  const float sums[][2] = {{1, half_ulp},   {1, 3 * half_ulp},  {1, half_ulp * 1.0078125f},
                           {-1, -half_ulp}, {largest, largest}, {NAN, 1},
                           {-HUGE_VALF, 1}};
  const float expected[] = {1, 1 + 4 * half_ulp, 1 + 2 * half_ulp, -1, HUGE_VALF, NAN, -HUGE_VALF};
  std::vector<float> all;
  for (const auto& sum : sums) all.insert(all.end(), sum, sum + 2);
  std::vector<Buffer> in;
  in.push_back(filled<Bf16>(Shape{7, 2}, b(all)));
  in.push_back(filled<Bf16>(Shape{2, 1}, b({1, 1})));
  const auto y = logical<Bf16>(run_row(table().row("onednn.matmul_widened"), in, {bf16({7, 1})}, {{"wide", true}})[0]);
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    const float value = y[i];
    EXPECT_TRUE(value == expected[i] || (std::isnan(value) && std::isnan(expected[i])))
        << "sum " << i << " is " << value << ", expected " << expected[i];
  }
}

TEST(Bf16Widening, TheWorkspaceHoldsTheCopiesOfBf16Operands) {
  const auto extra_workspace = [](const View& y) {
    const CallSpec call = call_of("matmul", {bf16({64, 48}), bf16({48, 32})}, y);
    CallSpec wide = call;
    for (View* view : {&wide.in[0], &wide.in[1], &wide.out[0]}) view->dtype = DType::f32;
    return table().row("onednn.matmul_widened").workspace(call) - table().row("onednn.matmul").workspace(wide);
  };
  EXPECT_EQ(extra_workspace(View(DType::f32, {64, 32})), 4 * (64 * 48 + 48 * 32));
  EXPECT_EQ(extra_workspace(bf16({64, 32})), 4 * (64 * 48 + 48 * 32 + 64 * 32));
}

TEST(Bf16Widening, TheRowsSupportOnlyProductsOfBf16AndRankBelowRowsWithoutCopies) {
  const View a = bf16({8, 8}), y = a, f32(DType::f32, {8, 8}), f16(DType::f16, {8, 8});
  const KernelRow& row = table().row("onednn.matmul_widened");
  EXPECT_TRUE(row.supports(call_of("matmul", {a, a}, y)));
  EXPECT_TRUE(row.supports(call_of("matmul", {a, a}, f32)));
  EXPECT_FALSE(row.supports(call_of("matmul", {f32, f32}, f32)));
  EXPECT_FALSE(row.supports(call_of("matmul", {f16, f16}, f16)));
  EXPECT_FALSE(row.supports(call_of("matmul", {a, f32}, f32)));
  EXPECT_FALSE(row.supports(call_of("matmul", {a, a}, f16)));
  EXPECT_FALSE(row.supports(call_of("matmul", {a, a, bf16({8})}, y, {{"bias", true}})));
  EXPECT_FALSE(row.supports(call_of("matmul", {bf16({0, 8}), a}, bf16({0, 8}))));
  for (const KernelRow& widened_row : table().rows()) {
    if (!is_widened(widened_row.name)) continue;
    const KernelRow& f32_row =
        table().row(widened_row.name.substr(0, widened_row.name.size() - std::string_view("_widened").size()));
    EXPECT_EQ(widened_row.op, f32_row.op);
    EXPECT_GT(widened_row.rank, table().row("plain." + widened_row.op).rank);
    EXPECT_LT(widened_row.rank, table().row("onednn." + widened_row.op).rank);
  }
}

}  // namespace
}  // namespace karez::kernels
