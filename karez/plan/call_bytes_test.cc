// Tests of the bytes that calls access: repeated and broadcast operands, results in place, and calls in some acts.
#include "karez/plan/call_bytes.h"

#include <gtest/gtest.h>

#include "karez/plan/test_plan_builder.h"

namespace karez::plan {
namespace {

TEST(CallBytes, DistinctBytesOfOperandsAndResultsCountOnce) {
  PlanBuilder s;
  const BlockId block = s.block(BlockKind::scratch, 0, 1024);
  const View matrix(DType::f32, {4, 8});
  auto bytes = [&](std::vector<Operand> in, std::vector<Operand> out) {
    Call call;
    call.in = std::move(in), call.out = std::move(out);
    return bytes_of(call);
  };
  const Operand x = in_block(block, matrix), y = in_block(block, matrix, 128);
  EXPECT_EQ(bytes({x, y}, {in_block(block, matrix, 256)}), 3 * 128);
  EXPECT_EQ(bytes({x, x}, {y}), 2 * 128);
  EXPECT_EQ(bytes({x, y}, {x}), 3 * 128) << "a call that works in place reads and writes";
  EXPECT_EQ(bytes({x, in_block(block, View(DType::f32, {4, 8}, {0, 1}), 512)}, {y}), 2 * 128 + 32);
  EXPECT_EQ(bytes({x}, {in_block(block, View(DType::bf16, {4, 8}), 512)}), 128 + 64);
  EXPECT_EQ(bytes({in_block(block, View(DType::f32, {4, 8}, {1, 4}))}, {x}), 2 * 128);
  EXPECT_EQ(bytes({in_block(block, View(DType::f32, {4, 8}, {16, 1}))}, {x}), 2 * 128) << "gaps do not count";
  EXPECT_EQ(bytes({in_block(block, View(DType::f32, {0, 8}))}, {}), 0);
}

TEST(CallBytes, TheCallsOfALaunchCountInEveryAct) {
  PlanBuilder s;
  const ActorId work = s.actor("work");
  s.start(work, 4), s.done(work, 4);
  const BlockId block = s.block(BlockKind::scratch, 0, 1024);
  const View row(DType::f32, {8});
  s.call(work, "test.sum", {in_block(block, row)}, {in_block(block, row, 32)});
  s.call(work, "test.sum", {in_block(block, row)}, {in_block(block, row, 64)});
  EXPECT_EQ(bytes_of_calls(s.plan), 4 * 2 * 64);
  s.plan.actors[work].calls[1].acts = {1, 3};
  EXPECT_EQ(bytes_of_calls(s.plan), 4 * 64 + 2 * 64);
}

}  // namespace
}  // namespace karez::plan
