// Tests of set_support: each answer is computed once, and belongs to its call.
#include "karez/kernels/cpu/call_support.h"

#include <gtest/gtest.h>

#include "karez/base/test_error.h"

namespace karez::kernels {
namespace {

CallSpec call_of_size(std::int64_t size) {
  CallSpec call;
  call.op = "op";
  call.in = {View(DType::f32, {size})};
  return call;
}

// Supports calls of even sizes, and counts computations.
KernelRow counting_row(int& count) {
  KernelRow row;
  row.name = "test.op";
  set_support(row, [&count](const CallSpec& call) -> std::optional<std::int64_t> {
    ++count;
    return call.in[0].count() % 2 == 0 ? std::optional(call.in[0].bytes()) : std::nullopt;
  });
  return row;
}

TEST(CallSupport, TheAnswerForACallIsComputedOnce) {
  int count = 0;
  const KernelRow row = counting_row(count), copy = row;
  for (int repeat = 0; repeat < 3; ++repeat) {
    EXPECT_TRUE(row.supports(call_of_size(8)));
    EXPECT_EQ(copy.workspace(call_of_size(8)), 32);
    EXPECT_FALSE(copy.supports(call_of_size(7)));
  }
  EXPECT_EQ(count, 2);
}

TEST(CallSupport, TheWorkspaceOfACallThatIsNotSupportedIsAnError) {
  int count = 0;
  const KernelRow row = counting_row(count);
  EXPECT_EQ(error_of([&] { row.workspace(call_of_size(7)); }), "kernel test.op does not support op(f32[7]) -> ");
}

TEST(CallSupport, AnswersOfManyCallsBelongToTheirCalls) {
  int count = 0;
  const KernelRow row = counting_row(count);
  for (int repeat = 0; repeat < 2; ++repeat)
    for (std::int64_t size = 0; size < 3000; ++size) {
      ASSERT_EQ(row.supports(call_of_size(size)), size % 2 == 0);
      if (size % 2 == 0) { ASSERT_EQ(row.workspace(call_of_size(size)), 4 * size); }
    }
  EXPECT_EQ(count, 6000);  // so many answers are not all kept
}

}  // namespace
}  // namespace karez::kernels
