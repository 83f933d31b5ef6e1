// Runs a row on one call with random operands and compares it with the plain row, for tests and benchmarks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "karez/kernels/cpu/kernel_buffer.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels {

// A prepared kernel, with memory for the operands of its call.
struct KernelBench {
  CallSpec call;
  std::vector<Buffer> in, out;
  std::vector<std::byte> workspace;
  std::vector<std::byte*> ins, outs;
  PreparedKernel kernel;

  KernelBench(const KernelRow& row, CallSpec c) : call(std::move(c)) {
    if (!row.supports(call)) fail(row.name, " does not support ", print(call));
    for (const View& view : call.in) in.emplace_back(view);
    for (const View& view : call.out) out.emplace_back(view);
    workspace.resize(static_cast<std::size_t>(row.workspace ? row.workspace(call) : 0) + 64);
    for (Buffer& buffer : in) ins.push_back(buffer.bytes.data());
    for (Buffer& buffer : out) outs.push_back(buffer.bytes.data());
    kernel = row.prepare(call);
  }
  KernelBench(const KernelBench&) = delete;
  KernelBench& operator=(const KernelBench&) = delete;

  void run() {
    auto address = reinterpret_cast<std::uintptr_t>(workspace.data());
    kernel({ins, outs, reinterpret_cast<std::byte*>((address + 63) / 64 * 64)});
  }
};

// Fills a buffer with normally distributed floats, bools or small integers, which the seed determines.
inline void fill_random(Buffer& buffer, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for_each_index(buffer.view.shape, [&](const auto& index) {
    switch (buffer.view.dtype) {
      case DType::f32: buffer.at<float>(index) = normal(random); break;
      case DType::f64: buffer.at<double>(index) = static_cast<double>(normal(random)); break;
      case DType::i32: buffer.at<std::int32_t>(index) = static_cast<std::int32_t>(random() % 4); break;
      case DType::i64: buffer.at<std::int64_t>(index) = static_cast<std::int64_t>(random() % 4) + 1; break;
      case DType::b8: buffer.at<bool>(index) = random() % 2 == 0; break;
      case DType::u8: buffer.at<std::uint8_t>(index) = static_cast<std::uint8_t>(random() % 4); break;
      case DType::bf16: buffer.at<tensor::Bf16>(index) = tensor::Bf16(normal(random)); break;
      case DType::f16: buffer.at<tensor::F16>(index) = tensor::F16(normal(random)); break;
    }
  });
}
inline void fill_random(KernelBench& bench, unsigned seed) {
  for (Buffer& buffer : bench.in) fill_random(buffer, seed++);
}

// Returns the largest |a - b| / (1 + |b|) over the floats of two buffers; for other types 1 if any
// element differs, otherwise 0. Two NaNs are equal.
inline double difference(Buffer& a, Buffer& b) {
  require(a.view.shape == b.view.shape && a.view.dtype == b.view.dtype, "two buffers differ in type: ", a.view, " and ",
          b.view);
  double largest = 0;
  for_each_index(a.view.shape, [&](const auto& index) {
    if (!is_float(a.view.dtype)) {
      with_type(a.view.dtype,
                [&]<class T>() { largest = std::max(largest, a.at<T>(index) == b.at<T>(index) ? 0.0 : 1.0); });
      return;
    }
    const auto value_of = [&](Buffer& buffer) {
      return with_type(buffer.view.dtype, [&]<class T>() { return static_cast<double>(buffer.at<T>(index)); });
    };
    const double x = value_of(a), y = value_of(b);
    if (x == y || (std::isnan(x) && std::isnan(y))) return;
    const double d = std::abs(x - y) / (1 + std::abs(y));
    largest = std::isnan(d) ? HUGE_VAL : std::max(largest, d);
  });
  return largest;
}

inline bool same_bits(const KernelBench& a, const KernelBench& b) {
  for (std::size_t i = 0; i < a.out.size(); ++i)
    if (a.out[i].bytes != b.out[i].bytes) return false;
  return true;
}

// Converts a product of f32 to bf16: its first two operands and its result; a bias remains f32.
inline CallSpec as_bf16(CallSpec call) {
  call.in[0].dtype = call.in[1].dtype = call.out[0].dtype = DType::bf16;
  call.attrs.set("wide", true);
  return call;
}

// Returns at least one call for every fast row except the widening rows, large enough to be shared by a team of two.
inline std::vector<CallSpec> calls_for_fast_rows() {
  const auto f32 = [](Shape shape) { return View(DType::f32, std::move(shape)); };
  const auto image = [](Shape shape, DType dtype = DType::f32) { return View(dtype, shape, channels_last(shape)); };
  const View x = image({8, 1, 28, 28}), x3 = image({8, 3, 28, 28}), y = image({8, 16, 26, 26}),
             z = image({8, 16, 13, 13}), mask = image(z.shape, DType::i32);
  const View w = image({16, 1, 3, 3}), w3 = image({16, 3, 3, 3}), matrix = f32({300, 400}), scalar = f32({}),
             step(DType::i64, {});
  const Attrs pool{{"kernel", Ints{2, 2}}, {"stride", Ints{2, 2}}};
  const auto make = [](const char* op, std::vector<View> in, std::vector<View> out, Attrs attrs) {
    CallSpec call;
    call.op = op, call.in = std::move(in), call.out = std::move(out), call.attrs = std::move(attrs);
    return call;
  };
  return {
      make("matmul", {f32({64, 100}), f32({100, 50}), f32({50})}, {f32({64, 50})}, {{"bias", true}, {"relu", true}}),
      make("conv2d", {x, w}, {y}, {}),
      make("conv2d", {x3, w3}, {y}, {}),
      make("conv2d_grad_input", {y, w3}, {x3}, {{"shape", x3.shape}}),
      make("conv2d_grad_weight", {x3, y}, {w3}, {{"kernel", Ints{3, 3}}}),
      make("max_pool", {y}, {z, mask}, pool),
      make("max_pool_grad", {z, mask}, {y}, pool),
      make("avg_pool", {y}, {z}, pool),
      make("avg_pool_grad", {z}, {y}, pool),
      make("pointwise", {matrix}, {matrix}, {{"expr", "max(x0, 0)"}}),
      make("pointwise", {matrix, View(DType::f32, matrix.shape, {1, 0})}, {matrix}, {{"expr", "exp(x0 - x1) * x0"}}),
      make("pointwise", {View(DType::f64, matrix.shape), View(DType::f64, matrix.shape, {0, 1})},
           {View(DType::f64, matrix.shape)}, {{"expr", "exp(x0) * x1 + 1"}}),
      make("cast", {matrix}, {View(DType::f64, matrix.shape)}, {}),
      make("cast", {matrix}, {View(DType::bf16, matrix.shape)}, {}),
      make("cast", {View(DType::f16, matrix.shape)}, {matrix}, {}),
      make("reduce_sum", {matrix}, {f32({400})}, {{"axes", Ints{0}}}),
      make("reduce_sum", {View(DType::f64, {300, 400})}, {View(DType::f64, {})}, {{"axes", Ints{0, 1}}}),
      make("reduce_max", {matrix}, {f32({300})}, {{"axes", Ints{1}}}),
      make("reduce_min", {matrix}, {scalar}, {{"axes", Ints{0, 1}}}),
      make("row_program", {matrix, View(DType::i64, {300, 1})}, {matrix, f32({300, 1})},
           {{"program",
             "x2 = row_max(x0); x3 = exp(x0 - x2); x4 = row_sum(x3); x5 = x3 / x4; x6 = one_hot(x1); "
             "x7 = x5 - x6; return x7, x4"}}),
      make("sgd", {matrix, matrix, matrix, scalar}, {matrix, matrix}, {{"momentum", 0.9}}),
      make("adam", {matrix, matrix, matrix, matrix, scalar, step}, {matrix, matrix, matrix},
           {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}}),
      make("sgd_if", {matrix, matrix, matrix, scalar, View(DType::b8, {})}, {matrix, matrix}, {{"momentum", 0.9}}),
      make("adam_if", {matrix, matrix, matrix, matrix, scalar, step, View(DType::b8, {})}, {matrix, matrix, matrix},
           {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}}),
      make("random_uniform", {View(DType::i64, {2})}, {matrix}, {{"site", Attr(std::int64_t{3})}}),
      make("copy", {View(DType::f32, {300, 400}, {1, 300})}, {matrix}, {}),
      make("pad", {matrix}, {View(DType::f32, {310, 400})}, {{"low", Ints{4, 0}}, {"high", Ints{6, 0}}}),
      make("gather", {f32({5, 400}), View(DType::i64, {300})}, {matrix}, {}),
      make("scatter_add", {View(DType::i64, {300}), matrix}, {f32({5, 400})}, {{"rows", Attr(std::int64_t{5})}}),
      make("arg_max", {matrix}, {View(DType::i64, {300})}, {{"axis", Attr(std::int64_t{1})}}),
      make("cumsum", {matrix}, {matrix}, {{"axis", Attr(std::int64_t{1})}}),
      make("sort", {matrix}, {matrix, View(DType::i64, matrix.shape)}, {{"axis", Attr(std::int64_t{1})}}),
      make("take_along", {f32({300, 5}), View(DType::i64, {300, 400})}, {matrix}, {{"axis", Attr(std::int64_t{1})}}),
      make("add_along", {View(DType::i64, {300, 400}), matrix}, {f32({300, 5})},
           {{"axis", Attr(std::int64_t{1})}, {"size", Attr(std::int64_t{5})}}),
      make("resize", {f32({300, 400})}, {f32({90, 400})}, {{"axis", Attr(std::int64_t{0})}}),
      make("resize", {View(DType::u8, {60, 400, 3})}, {View(DType::u8, {60, 200, 3})},
           {{"axis", Attr(std::int64_t{1})}}),
      make("resize_grad", {f32({60, 200, 3})}, {f32({60, 400, 3})}, {{"axis", Attr(std::int64_t{1})}}),
      make("one_hot", {View(DType::i64, {300})}, {f32({300, 5})}, {{"depth", Attr(std::int64_t{5})}}),
      make("pointwise", {View(DType::i64, {300}), View(DType::i64, {300}, {0})}, {View(DType::i64, {300})},
           {{"expr", "x0 + x1"}})};
}

}  // namespace karez::kernels
