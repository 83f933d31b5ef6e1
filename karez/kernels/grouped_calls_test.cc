// Tests of groups: every call gives the bits of a single call, however threads share them.
#include "karez/kernels/grouped_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "karez/base/test_error.h"
#include "karez/base/text.h"
#include "karez/device/test_highway.h"
#include "karez/kernels/cpu/kernel_bench.h"
#include "karez/kernels/prepare_call.h"

namespace karez::kernels {
namespace {

const KernelTable& table() {
  static const KernelTable all(cpu_kernels());
  return all;
}

CallSpec call_of(std::string op, std::vector<View> in, View out, Attrs attrs = {}) {
  CallSpec call;
  call.op = std::move(op), call.in = std::move(in), call.out = {std::move(out)}, call.attrs = std::move(attrs);
  return call;
}

CallSpec group_of(const CallSpec& call, int calls, int team) {
  CallSpec group = call;
  for (int i = 1; i < calls; ++i) {
    group.in.insert(group.in.end(), call.in.begin(), call.in.end());
    group.out.insert(group.out.end(), call.out.begin(), call.out.end());
  }
  group.attrs.set("calls", std::int64_t{calls});
  group.team = team;
  return group;
}

// The operands of the calls, their results, and those of the group.
struct GroupRun {
  std::vector<Buffer> in, single, grouped;

  GroupRun(const CallSpec& call, int calls, int team) {
    const KernelChoice choice = table().find(call).value();
    for (int i = 0; i < calls; ++i) {
      for (const View& view : call.in) fill_random(in.emplace_back(view), static_cast<unsigned>(in.size()));
      single.push_back(Buffer(call.out[0])), grouped.push_back(Buffer(call.out[0]));
    }
    const CallSpec group = group_of(call, calls, team);
    const KernelChoice group_choice = table().find(group).value();
    EXPECT_EQ(group_choice.kernel, choice.kernel);
    const PreparedKernel kernel = table().row(choice.kernel).prepare(call);
    const PreparedKernel group_kernel = prepare_group(table().row(choice.kernel), group);
    std::vector<std::byte*> ins, outs, single_outs;
    for (Buffer& buffer : in) ins.push_back(buffer.bytes.data());
    for (Buffer& buffer : single) single_outs.push_back(buffer.bytes.data());
    for (Buffer& buffer : grouped) outs.push_back(buffer.bytes.data());
    const std::size_t n = call.in.size();
    Workspace scratch(choice.workspace), group_scratch(group_choice.workspace);
    for (int round = 0; round < 2; ++round) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(calls); ++i)
        kernel({std::span(ins).subspan(i * n, n), std::span(single_outs).subspan(i, 1), scratch.begin});
      group_kernel({ins, outs, group_scratch.begin});
    }
  }

 private:
  struct Workspace {
    std::vector<std::byte> bytes;
    std::byte* begin;
    explicit Workspace(std::int64_t size) : bytes(static_cast<std::size_t>(size) + 64) {
      begin = bytes.data() + (64 - reinterpret_cast<std::uintptr_t>(bytes.data()) % 64) % 64;
    }
  };
};

void expect_same_bits(const CallSpec& call) {
  for (const int calls : {2, 7})
    for (const int team : {1, 3}) {
      SCOPED_TRACE(cat(calls, " calls ", print(call), ", team of ", team));
      GroupRun run(call, calls, team);
      for (std::size_t i = 0; i < run.single.size(); ++i)
        EXPECT_EQ(run.single[i].bytes, run.grouped[i].bytes) << "call " << i;
    }
}

View dense(DType dtype, Shape shape) { return View(dtype, std::move(shape)); }

TEST(GroupedCalls, PointwiseCallsOfAGroupGiveTheBitsOfSingleCalls) {
  on_every_instruction_set([](const char* name) {
    SCOPED_TRACE(cat("on ", name));
    for (const std::int64_t n : {1, 33}) {
      for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8}) {
        const View x = dense(dtype, {3, n}), row = View(dtype, {3, n}, {0, 1});
        expect_same_bits(call_of("pointwise", {x, x}, x, {{"expr", "x0 + x1"}}));
        if (is_float(dtype)) expect_same_bits(call_of("pointwise", {x, row}, x, {{"expr", "exp(x0 - x1) * x0 + 2"}}));
      }
      expect_same_bits(call_of("pointwise",
                               {dense(DType::f32, {n}), View(DType::f32, {n}, {0}), dense(DType::f32, {n})},
                               dense(DType::f32, {n}), {{"expr", "x0 - x1 * x2"}}));
      expect_same_bits(call_of("pointwise", {dense(DType::b8, {n}), dense(DType::f32, {n}), dense(DType::f32, {n})},
                               dense(DType::f32, {n}), {{"expr", "select(x0, x1, x2)"}}));
      expect_same_bits(call_of("pointwise", {dense(DType::f32, {n}), dense(DType::f32, {n})}, dense(DType::b8, {n}),
                               {{"expr", "x0 < x1"}}));
      expect_same_bits(call_of("cast", {dense(DType::f32, {n})}, dense(DType::bf16, {n})));
      expect_same_bits(call_of("cast", {dense(DType::f64, {n})}, dense(DType::f32, {n})));
      expect_same_bits(call_of("cast", {dense(DType::i64, {n})}, dense(DType::f32, {n})));
    }
  });
}

// The calls x[i] - rate[i] * y[i], in place if `in_place`: from `gap_at` on, operands are not adjacent to those before
// it, and from `rate_at` on there is another rate.
template <class T> void expect_updates(std::int64_t n, int calls, int team, int gap_at, int rate_at, bool in_place) {
  SCOPED_TRACE(cat(calls, " calls of ", n, ", team of ", team, ", gap at ", gap_at, ", rate at ", rate_at));
  const View x(dtype_of<T>(), {n}), rate(dtype_of<T>(), {n}, {0});
  const CallSpec group = group_of(call_of("pointwise", {x, rate, x}, x, {{"expr", "x0 - x1 * x2"}}), calls, team);
  const KernelChoice choice = table().find(group).value();
  const PreparedKernel kernel = prepare_group(table().row(choice.kernel), group);
  const auto size = static_cast<std::size_t>(n * calls + 7);
  std::vector<T> xs(size), ys(size), results(size, T{-1}), rates{T(0.5), T(3)};
  for (std::size_t i = 0; i < size; ++i) xs[i] = T(0.1) * static_cast<T>(i % 37), ys[i] = static_cast<T>(i % 11) / T(7);
  const std::vector<T> old = xs;
  std::vector<std::byte*> in, out;
  std::vector<std::size_t> begin;
  for (int i = 0; i < calls; ++i) {
    begin.push_back(static_cast<std::size_t>(i * n + (i >= gap_at ? 7 : 0)));
    in.push_back(reinterpret_cast<std::byte*>(&xs[begin.back()]));
    in.push_back(reinterpret_cast<std::byte*>(&rates[i >= rate_at]));
    in.push_back(reinterpret_cast<std::byte*>(&ys[begin.back()]));
    out.push_back(in_place ? in[in.size() - 3] : reinterpret_cast<std::byte*>(&results[begin.back()]));
  }
  std::vector<std::byte> scratch(static_cast<std::size_t>(choice.workspace) + 64);
  kernel({in, out, scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64) % 64});
  for (int i = 0; i < calls; ++i)
    for (std::size_t k = 0; k < static_cast<std::size_t>(n); ++k) {
      const std::size_t at = begin[static_cast<std::size_t>(i)] + k;
      volatile T step = rates[i >= rate_at] * ys[at];  // without a fused multiplication and subtraction
      ASSERT_EQ(in_place ? xs[at] : results[at], old[at] - step) << "call " << i << ", element " << k;
    }
}

TEST(GroupedCalls, AdjacentAndSeparateOperandsAndSharedAndOwnScalarsGiveTheSameResults) {
  for (const std::int64_t n : {1, 3, 16, 100, 300, 700})
    for (const int team : {1, 2, 3})
      for (const int gap_at : {0, 1, 4, 9})
        for (const int rate_at : {1, 5, 9})
          for (const bool in_place : {false, true}) {
            expect_updates<float>(n, 9, team, gap_at, rate_at, in_place);
            expect_updates<double>(n, 9, team, gap_at, rate_at, in_place);
          }
}

TEST(GroupedCalls, ProductsOfAGroupAreThoseOfSingleCalls) {
  const auto view = [](std::int64_t rows, std::int64_t columns, bool transposed, DType dtype) {
    return transposed ? dense(dtype, {columns, rows}) : dense(dtype, {rows, columns});
  };
  for (const auto& [m, k, n] : std::vector<std::array<std::int64_t, 3>>{
           {1, 16, 8}, {2, 1, 3}, {7, 33, 5}, {33, 64, 1}, {5, 3, 130}, {64, 128, 40}})
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
          for (const bool bias : {false, true}) {
            if (bias && dtype == DType::f64) continue;  // plain products have no bias
            Attrs attrs{{"transpose_a", transpose_a}, {"transpose_b", transpose_b}};
            CallSpec call = call_of("matmul", {view(m, k, transpose_a, dtype), view(k, n, transpose_b, dtype)},
                                    dense(dtype, {m, n}), attrs);
            if (dtype == DType::bf16) call.attrs.set("wide", true);
            if (bias) call.in.push_back(dense(DType::f32, {n})), call.attrs.set("bias", true).set("relu", true);
            if (!table().find(call)) continue;
            const double tolerance = dtype == DType::bf16  ? 0x1p-7
                                     : dtype == DType::f32 ? 2e-6 * std::sqrt(static_cast<double>(k)) + 1e-6
                                                           : 1e-13;
            for (const int calls : {2, 3, 4})
              for (const int team : {2, 3, 8}) {
                SCOPED_TRACE(cat(calls, " calls ", print(call), ", team of ", team));
                GroupRun run(call, calls, team);
                for (std::size_t i = 0; i < run.single.size(); ++i)
                  EXPECT_LE(difference(run.grouped[i], run.single[i]), tolerance) << "call " << i;
              }
          }
}

TEST(GroupedCalls, ProductsKeepNanAndInfinity) {
  const CallSpec call = call_of("matmul", {dense(DType::f32, {6, 4}), dense(DType::f32, {4, 8})},
                                dense(DType::f32, {6, 8}), {{"relu", true}});
  const CallSpec group = group_of(call, 3, 2);
  const KernelRow& row = table().row(table().find(call)->kernel);
  const PreparedKernel kernel = prepare_group(row, group);
  std::vector<Buffer> in, out;
  for (const View& view : group.in)
    std::fill_n(reinterpret_cast<float*>(in.emplace_back(view).bytes.data()), view.count(), 1.0f);
  for (const View& view : group.out) out.emplace_back(view);
  in[2].at<float>({4, 1}) = std::numeric_limits<float>::quiet_NaN();  // the second product, row 4
  in[4].at<float>({0, 0}) = std::numeric_limits<float>::infinity();   // the third, row 0
  std::vector<std::byte*> ins, outs;
  for (Buffer& buffer : in) ins.push_back(buffer.bytes.data());
  for (Buffer& buffer : out) outs.push_back(buffer.bytes.data());
  std::vector<std::byte> scratch(static_cast<std::size_t>(table().find(group)->workspace) + 64);
  kernel({ins, outs, scratch.data() + (64 - reinterpret_cast<std::uintptr_t>(scratch.data()) % 64) % 64});
  for (std::int64_t r = 0; r < 6; ++r)
    for (std::int64_t c = 0; c < 8; ++c) {
      EXPECT_EQ(out[0].at<float>({r, c}), 4);
      EXPECT_EQ(std::isnan(out[1].at<float>({r, c})), r == 4) << r;
      EXPECT_EQ(std::isinf(out[2].at<float>({r, c})), r == 0) << r;
    }
}

// A kernel that notes its call in its workspace and in its result.
KernelRow noting_row(std::vector<CallSpec>& prepared) {
  return {"test.note",
          "note",
          0,
          [](const CallSpec& call) { return call.in.size() == 1 && call.in[0].dtype == DType::i64; },
          [](const CallSpec&) { return std::int64_t{8}; },
          [&prepared](const CallSpec& call) -> PreparedKernel {
            prepared.push_back(call);
            return [](const KernelArgs& args) {
              const auto value = *reinterpret_cast<const std::int64_t*>(args.in[0]);
              require(value != 13, "the operand must not be 13");
              *reinterpret_cast<std::int64_t*>(args.workspace) = value;
              *reinterpret_cast<std::int64_t*>(args.out[0]) = value + 1;
            };
          }};
}

plan::Call noting_call(int calls, int team, std::int64_t workspace) {
  plan::Call call;
  call.kernel = "test.note", call.team = team;
  call.attrs.set("calls", std::int64_t{calls});
  for (int i = 0; i < calls; ++i) call.in.emplace_back().view = call.out.emplace_back().view = View(DType::i64, {});
  call.workspace.emplace().view = View(DType::b8, {workspace});
  return call;
}

TEST(GroupedCalls, EachThreadHasAWorkspaceAndPreparesItsCallsForOneThread) {
  std::vector<CallSpec> prepared;
  const KernelTable kernels({noting_row(prepared)});
  const PreparedKernel kernel = prepare_call(kernels, noting_call(5, 2, 16512), "cpu");
  ASSERT_EQ(prepared.size(), 5u);
  for (const CallSpec& call : prepared) {
    EXPECT_EQ(call.team, 1);
    EXPECT_FALSE(call.attrs.has("calls"));
    EXPECT_EQ(call.in.size(), 1u);
  }
  std::int64_t in[5] = {1, 2, 3, 4, 5}, out[5] = {}, workspace[2064] = {};
  std::vector<std::byte*> ins, outs;
  for (int i = 0; i < 5; ++i)
    ins.push_back(reinterpret_cast<std::byte*>(&in[i])), outs.push_back(reinterpret_cast<std::byte*>(&out[i]));
  kernel({ins, outs, reinterpret_cast<std::byte*>(workspace)});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(out[i], in[i] + 1);
  EXPECT_EQ(workspace[0], 2);  // the first thread runs two calls
  EXPECT_EQ(workspace[1032], 5);
  in[3] = 13;
  EXPECT_EQ(error_of([&] {
              kernel({ins, outs, reinterpret_cast<std::byte*>(workspace)});
            }),
            "the operand must not be 13");
  EXPECT_EQ(error_of([&] { prepare_call(kernels, noting_call(5, 2, 16511), "cpu"); }).substr(0, 48),
            "kernel test.note needs 16512 bytes of workspace ");
}

TEST(GroupedCalls, CallsWithDifferentViewsOrUnequalNumbersOfOperandsAreErrors) {
  const View x(DType::f32, {4}), y(DType::f32, {5});
  CallSpec call = group_of(call_of("pointwise", {x, x}, x, {{"expr", "x0 + x1"}}), 3, 1);
  EXPECT_TRUE(table().find(call).has_value());
  CallSpec other = call;
  other.in[4] = y;
  EXPECT_FALSE(table().find(other).has_value());
  call.in.pop_back();
  EXPECT_EQ(error_of([&] { table().find(call); }),
            "pointwise: a group of 3 calls must have equal numbers of operands and results for each, got 5 and 3");
  call.attrs.set("calls", std::int64_t{0});
  EXPECT_EQ(error_of([&] { table().find(call); }), "calls must be 1 to 1048576, got 0");
}

}  // namespace
}  // namespace karez::kernels
