// Tests of prepare_call: what the kernel of a plan's call gets, and the errors for calls that it cannot run.
#include "karez/kernels/prepare_call.h"

#include <gtest/gtest.h>

#include "karez/base/test_error.h"

namespace karez::kernels {
namespace {

const View matrix(DType::f32, {3, 4}), columns(DType::f32, {3, 4}, {1, 3}), result(DType::f64, {4});

plan::Call test_call() {
  plan::Call call;
  call.kernel = "test.op";
  call.attrs = {{"axis", std::int64_t{1}}};
  for (const View& view : {matrix, columns}) call.in.emplace_back().view = view;
  call.out.emplace_back().view = result;
  call.team = 3;
  return call;
}

KernelRow test_row(CallSpec& got) {
  return {"test.op",
          "op",
          0,
          [](const CallSpec& spec) { return spec.attrs.integer("axis") == 1; },
          [](const CallSpec& spec) { return spec.in[0].bytes(); },
          [&got](const CallSpec& spec) -> PreparedKernel {
            got = spec;
            return [](const KernelArgs&) {};
          }};
}

TEST(PrepareCall, TheKernelGetsOpAttributesViewsDeviceAndTeamOfTheCall) {
  CallSpec got;
  const KernelTable table({test_row(got)});
  plan::Call call = test_call();
  call.workspace.emplace().view = View(DType::b8, {48});
  EXPECT_NE(prepare_call(table, call, "cpu"), nullptr);
  EXPECT_EQ(got.op, "op");
  EXPECT_EQ(got.attrs, call.attrs);
  EXPECT_EQ(got.device, "cpu");
  EXPECT_EQ(got.team, 3);
  EXPECT_EQ(got.in, (std::vector<View>{matrix, columns}));
  EXPECT_EQ(got.out, std::vector<View>{result});
}

TEST(PrepareCall, CallsThatTheKernelCannotRunAreErrors) {
  CallSpec got;
  const KernelTable table({test_row(got)});
  plan::Call call = test_call();
  EXPECT_EQ(error_of([&] { prepare_call(table, call, "cpu"); }),
            "kernel test.op needs 48 bytes of workspace for op(f32[3, 4], f32[3, 4]{1, 3}) {axis=1} -> f64[4] team 3, "
            "but the "
            "plan gives 0");
  call.workspace.emplace().view = View(DType::b8, {47});
  EXPECT_EQ(error_of([&] { prepare_call(table, call, "cpu"); }),
            "kernel test.op needs 48 bytes of workspace for op(f32[3, 4], f32[3, 4]{1, 3}) {axis=1} -> f64[4] team 3, "
            "but the "
            "plan gives 47");
  call.attrs = {{"axis", std::int64_t{0}}};
  EXPECT_EQ(
      error_of([&] { prepare_call(table, call, "cpu"); }),
      "kernel test.op does not support op(f32[3, 4], f32[3, 4]{1, 3}) {axis=0} -> f64[4] team 3; kernels of 'op', "
      "highest rank first: test.op");
  call.kernel = "test.other";
  EXPECT_EQ(error_of([&] { prepare_call(table, call, "cpu"); }), "unknown kernel 'test.other'; there is 1: test.op");
}

}  // namespace
}  // namespace karez::kernels
