// Tests of the error that is thrown if no variant of a program fits the memory limit.
#include "karez/passes/memory_limit/memory_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/base/test_golden.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using ::testing::HasSubstr;
using testing::table;

std::string error_of_mlp(const std::vector<std::string>& off) {
  Compilation c = testing::compilation(testing::mlp_step(Mesh::parse("data=2"), {64, 128, 10}, 32));
  c.options.memory = 1000;
  c.options.off = off;
  try {
    compile(c);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::device);
    return error.what();
  }
  return "no error";
}

TEST(FitMemory, TheErrorListsTheLargestTensorsAndSuggestions) {
  EXPECT_TRUE(golden(
      error_of_mlp({}),
      R"(plan 'step' needs 72.66 KiB (74408 bytes) on device 0.0, but the limit is 1000 B (1000 bytes); this is the smallest of 6 plans tried; the largest 10 of its 37 tensors are:
  16.00 KiB  variable 'fc1.weight' f32[128@data, 64]
  16.00 KiB  f32[128@data, 64] of matmul at mlp.cc:2 (fc1.grad)
  16.00 KiB  variable 'm.fc1.weight' f32[128@data, 64]
  8.00 KiB  f32[32, 64] of input at mlp.cc:1, the whole value on the host, for all devices
  8.00 KiB  f32[32, 128@data] of matmul at mlp.cc:2 (fc1)
  8.00 KiB  f32[32, 128@data] of add at mlp.cc:2 (fc1)
  8.00 KiB  f32[32, 128@data] of relu at mlp.cc:2 (fc1)
  8.00 KiB  f32[32, 128@data] of matmul at mlp.cc:3 (fc2.grad)
  2.50 KiB  variable 'fc2.weight' f32[10, 128@data]
  2.50 KiB  f32[10, 128@data] of matmul at mlp.cc:3 (fc2.grad)
suggestions:
  more devices, to split the 37.54 KiB of variables
  a smaller batch, or microbatches, to reduce the 35.12 KiB of the launch's values
  amp="bf16", to store f32 values in half the bytes)"));
  EXPECT_THAT(error_of_mlp({"recompute"}), HasSubstr("\n  recomputation, which is switched off\n"));
}

std::string error_of(Compilation c, std::int64_t memory = 64) {
  c.options.memory = memory;
  try {
    compile(c);
  } catch (const Error& error) { return error.what(); }
  return "no error";
}

// The calls of the chain work in place, so the plan needs fewer bytes than the graph, where the operand and the result
// of each node are separate values. The parameter is so large that the difference is small. The program has more
// layouts than are listed exhaustively.
TEST(FitMemory, APlanWithAsManyBytesAsTheErrorNamesIsFound) {
  Graph graph;
  graph.meshes = {Mesh::parse("data=2")};
  Builder b(graph, table());
  ValueId chain = build::broadcast(b, build::input(b, "x", {DType::f32, {64}}), {32, 64}, {1});
  for (int i = 0; i < 6; ++i) chain = build::tanh(b, chain);
  const ValueId w = testing::parameter(b, "w", {DType::f32, {256, 64}});
  graph.outputs.push_back({"chain", build::reduce_sum(b, chain, {0, 1})});
  graph.outputs.push_back({"sum", build::reduce_sum(b, w, {0, 1})});
  EXPECT_THAT(error_of(testing::compilation(graph)), HasSubstr(" (37312 bytes) on device 0.0, but"));
  EXPECT_EQ(error_of(testing::compilation(graph), 37312), "no error");
}

TEST(FitMemory, TheErrorSuggestsOnlyChangesThatHelpTheProgram) {
  Compilation microbatched = testing::compilation(testing::mlp_step(Mesh::parse("data=2"), {64, 128, 10}, 32));
  microbatched.options.microbatches = 2;
  const std::string microbatch_error = error_of(microbatched, 1000);
  EXPECT_THAT(microbatch_error, HasSubstr("a smaller batch, or more microbatches, to reduce"));
  microbatched.options.amp = DType::bf16;
  EXPECT_THAT(error_of(microbatched, 1000), ::testing::Not(HasSubstr("amp=")));

  Graph without_variables;  // no variables, no f32 values, and not on the first device
  without_variables.meshes = {Mesh({{"a", 1}}, {{0, 1}})};
  Builder b(without_variables, table());
  without_variables.outputs.push_back({"y", build::exp(b, build::input(b, "x", {DType::f64, {100, 10}}))});
  const std::string fed_error = error_of(testing::compilation(without_variables));
  EXPECT_THAT(fed_error, HasSubstr(" on device 0.1, but the limit is 64 B (64 bytes)"));
  EXPECT_THAT(fed_error, HasSubstr("\nsuggestions:\n  a smaller batch, or microbatches, to reduce the "));
  EXPECT_THAT(fed_error, ::testing::Not(HasSubstr("more devices")));
  EXPECT_THAT(fed_error, ::testing::Not(HasSubstr("amp=")));

  Graph without_inputs;  // no inputs
  without_inputs.meshes = {Mesh::parse("a=1")};
  Builder c(without_inputs, table());
  const ValueId w = testing::parameter(c, "w", {DType::f32, {100, 10}});
  without_inputs.variables[0].updated = build::tanh(c, w);
  const std::string stored_error = error_of(testing::compilation(without_inputs));
  EXPECT_THAT(stored_error, HasSubstr("more devices, to split the 3.91 KiB of variables"));
  EXPECT_THAT(stored_error, ::testing::Not(HasSubstr("a smaller batch")));
}

}  // namespace
}  // namespace karez::passes
