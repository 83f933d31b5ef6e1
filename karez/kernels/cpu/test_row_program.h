// Runs row programs and one call for each of their statements, for tests that compare all bits.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "karez/base/row_program.h"
#include "karez/base/text.h"
#include "karez/kernels/cpu/fast_kernels.h"
#include "karez/kernels/cpu/kernel_bench.h"
#include "karez/kernels/cpu/plain_kernels.h"
#include "karez/kernels/namespace.h"

namespace karez::kernels::row_testing {

inline const KernelTable& table() {
  static const KernelTable all(cpu_kernels());
  return all;
}

// A program and its operands: [rows, columns], [rows, 1], [1, columns] or [1, 1].
struct Case {
  std::string program;
  std::int64_t rows = 1, columns = 2;
  std::vector<View> in;
  std::vector<DType> out;  // of each result
  DType computed = DType::f32;
};

inline CallSpec call_of(const Case& c, int team = 1) {
  CallSpec call;
  call.op = "row_program";
  call.attrs.set("program", c.program);
  call.in = c.in;
  call.team = team;
  return call;
}

inline void fill(Buffer& buffer, std::mt19937_64& random, std::int64_t columns) {
  const auto number = [&] { return std::uniform_real_distribution<float>(-4, 4)(random); };
  constexpr float specials[] = {0.0f, -0.0f, HUGE_VALF, -HUGE_VALF, NAN, 1e-42f, 3e38f};
  for (std::int64_t i = 0; i < buffer.view.count(); ++i) {
    float x = number();
    // Only in some rows, because a NaN hides the bits of a sum.
    if (i / buffer.view.shape[1] % 3 == 2 && random() % 29 == 0) x = specials[random() % std::size(specials)];
    std::byte* at = buffer.bytes.data() + i * size_of(buffer.view.dtype);
    switch (buffer.view.dtype) {
      case DType::f32: std::memcpy(at, &x, 4); break;
      case DType::f64: {
        const double wide = x;
        std::memcpy(at, &wide, 8);
        break;
      }
      case DType::bf16: {
        const tensor::Bf16 half(x);
        std::memcpy(at, &half, 2);
        break;
      }
      case DType::f16: {
        const tensor::F16 half(x);
        std::memcpy(at, &half, 2);
        break;
      }
      case DType::b8: *at = std::byte(random() % 2); break;
      case DType::i32: {
        const auto index = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(columns));
        std::memcpy(at, &index, 4);
        break;
      }
      default: {
        const auto index = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(columns));
        std::memcpy(at, &index, 8);
      }
    }
  }
}

inline Buffer run_fast(const CallSpec& call, std::vector<Buffer> in, const View& out) {
  CallSpec with_out = call;
  with_out.out = {out};
  const auto choice = table().find(with_out);
  if (!choice || starts_with(choice->kernel, "plain.")) fail("no fast kernel: ", print(with_out));
  return std::move(run_row(table().row(choice->kernel), in, {out}, call.attrs)[0]);
}

// The results of one call for each statement.
inline std::vector<Buffer> separate(const Case& c, const std::vector<Buffer>& in, const std::vector<View>& out) {
  const RowProgram program = parse_row_program(c.program);
  std::vector<Buffer> values = in;
  const auto is_full = [&](int v) { return values[static_cast<std::size_t>(v)].view.shape[1] == c.columns; };
  const auto repeated = [&](int v, const Shape& shape) {
    const View& view = values[static_cast<std::size_t>(v)].view;
    Strides strides = view.strides;
    for (std::size_t d = 0; d < 2; ++d)
      if (view.shape[d] == 1) strides[d] = 0;
    return View(view.dtype, shape, strides);
  };
  for (const auto& [kind, expr] : program.statements) {
    std::vector<int> read;
    variables_of(expr, read);
    const bool reduces = kind != RowStatementKind::each && kind != RowStatementKind::one_hot;
    const bool full = !reduces && (kind == RowStatementKind::one_hot ||
                                   std::any_of(read.begin(), read.end(), [&](int v) { return is_full(v); }));
    const Shape shape{c.rows, full ? c.columns : 1};
    CallSpec call;
    std::vector<Buffer> operands;
    View result(c.computed, shape);
    if (kind == RowStatementKind::each) {
      call.op = "pointwise";
      std::vector<Expr> with(max_row_variables);
      for (std::size_t k = 0; k < read.size(); ++k) {
        with[static_cast<std::size_t>(read[k])] = expr_variable(static_cast<int>(k));
        operands.push_back(values[static_cast<std::size_t>(read[k])]);
        operands.back().view = repeated(read[k], shape);
        call.in.push_back(operands.back().view);
      }
      call.attrs.set("expr", print(substitute(expr, with)));
    } else {
      operands.push_back(values[static_cast<std::size_t>(read[0])]);
      if (kind == RowStatementKind::one_hot) {
        call.op = "one_hot", call.attrs.set("depth", c.columns);
        operands[0].view = View(operands[0].view.dtype, {c.rows});
      } else {
        call.op = cat("reduce_", name_of(kind).substr(4)), call.attrs.set("axes", Ints{1});
        result = View(c.computed, {c.rows});
      }
      call.in = {operands[0].view};
    }
    values.push_back(run_fast(call, operands, result));
    values.back().view = View(c.computed, shape);
  }
  std::vector<Buffer> results;
  for (std::size_t r = 0; r < out.size(); ++r) {
    CallSpec call;
    call.op = "pointwise", call.attrs.set("expr", out[r].dtype == DType::b8 ? "x0 != 0" : "x0");
    const Buffer& value = values[static_cast<std::size_t>(program.results[r])];
    call.in = {value.view};
    results.push_back(run_fast(call, {value}, out[r]));
  }
  return results;
}

inline std::vector<View> views_of_results(const Case& c) {
  std::vector<View> out;
  const RowProgram program = parse_row_program(c.program);
  std::vector<bool> full;
  for (const View& view : c.in) full.push_back(view.shape[1] == c.columns);
  for (const auto& [kind, expr] : program.statements) {
    std::vector<int> read;
    variables_of(expr, read);
    const bool any = std::any_of(read.begin(), read.end(), [&](int v) { return full[static_cast<std::size_t>(v)]; });
    full.push_back(kind == RowStatementKind::one_hot || (kind == RowStatementKind::each && any));
  }
  for (std::size_t r = 0; r < program.results.size(); ++r)
    out.emplace_back(c.out[r], Shape{c.rows, full[static_cast<std::size_t>(program.results[r])] ? c.columns : 1});
  return out;
}

inline bool is_nan(const Buffer& buffer, std::int64_t i) {
  bool nan = false;
  if (buffer.view.dtype != DType::b8)
    with_float(buffer.view.dtype, [&]<class T>() {
      T x;
      std::memcpy(&x, buffer.bytes.data() + i * size_of(buffer.view.dtype), sizeof x);
      nan = std::isnan(static_cast<double>(x));
    });
  return nan;
}

// All bits are equal, except those of NaN.
inline void expect_bits(const Buffer& a, const Buffer& b) {
  const std::int64_t size = size_of(a.view.dtype);
  for (std::int64_t i = 0; i < a.view.count(); ++i) {
    if (is_nan(a, i) && is_nan(b, i)) continue;
    ASSERT_EQ(std::memcmp(a.bytes.data() + i * size, b.bytes.data() + i * size, static_cast<std::size_t>(size)), 0)
        << "element " << i << " of " << a.view;
  }
}

inline void expect_as_separate(const Case& c, std::uint64_t seed) {
  SCOPED_TRACE(cat(c.program, " on [", c.rows, ", ", c.columns, "], seed ", seed));
  std::mt19937_64 random(seed);
  std::vector<Buffer> in;
  for (const View& view : c.in) {
    in.emplace_back(view);
    fill(in.back(), random, c.columns);
  }
  CallSpec call = call_of(c);
  call.out = views_of_results(c);
  const KernelRow& row = table().row("hwy.row_program");
  ASSERT_TRUE(row.supports(call)) << print(call);
  const std::vector<Buffer> expected = separate(c, in, call.out);
  std::vector<Buffer> results = run_row(row, in, call.out, call.attrs);
  for (std::size_t r = 0; r < results.size(); ++r) expect_bits(results[r], expected[r]);
}

}  // namespace karez::kernels::row_testing
