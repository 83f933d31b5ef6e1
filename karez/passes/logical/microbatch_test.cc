// Tests of the microbatch pass: it turns one graph text into another, or throws an error.
#include "karez/passes/logical/microbatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/base/test_golden.h"
#include "karez/passes/sharding/shard.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::table;

std::string split_batch(const std::string& lines, int count, const std::string& outputs = "  output \"y\" %9\n") {
  const Graph graph = parse_graph(cat("graph main {\n", lines, outputs, "}\n"), table());
  verify(graph);
  const Graph result = microbatch(graph, table(), count);
  verify(result);
  return print(result);
}

std::string error_of(const std::string& lines, int count, const std::string& outputs = "  output \"y\" %9\n") {
  try {
    return split_batch(lines, count, outputs);
  } catch (const Error& error) { return error.what(); }
}

TEST(MicroBatch, TheBatchIsSplitButWeightsAreNotAndGradientsAreAccumulated) {
  EXPECT_TRUE(golden(split_batch(R"(
  %0 = input() {dtype="f32", name="x", shape=[8, 3]} : f32[8, 3]
  %1 = input() {dtype="f32", name="dy", shape=[8, 5]} : f32[8, 5]
  %2 = input() {dtype="f32", name="w", shape=[3, 5]} : f32[3, 5]
  %3 = matmul(%0, %2) : f32[8, 5]
  %4 = mul(%3, %1) : f32[8, 5]
  %9 = matmul(%0, %4) {transpose_a=true} : f32[3, 5]
)",
                                 4),
                     R"(graph main {
  %0 = input() {dtype="f32", name="x", shape=[2, 3]} : f32[2, 3] acts 4
  %1 = input() {dtype="f32", name="dy", shape=[2, 5]} : f32[2, 5] acts 4
  %2 = input() {dtype="f32", name="w", shape=[3, 5]} : f32[3, 5]
  %3 = matmul(%0, %2) : f32[2, 5] acts 4
  %4 = mul(%3, %1) : f32[2, 5] acts 4
  %5 = matmul(%0, %4) {transpose_a=true} : f32[3, 5] acts 4
  %6 = accumulate(%5) : f32[3, 5] acts 4
  output "y" %6
}
)"));
}

TEST(MicroBatch, OneMicroBatchDoesNotChangeTheGraph) {
  const std::string lines = R"(
  %0 = input() {dtype="f32", name="x", shape=[8, 3]} : f32[8, 3]
  %9 = exp(%0) : f32[8, 3]
)";
  EXPECT_EQ(split_batch(lines, 1).find("acts"), std::string::npos);
}

// Splats and windows on splats are created in the size of a part. Values that differ by position are sliced or get an
// offset. Sums of sums are accumulated once.
TEST(MicroBatch, WholeValuesThatAreReadInPartsAreCreatedInTheSizeOfAPartOrSliced) {
  EXPECT_TRUE(golden(split_batch(R"(
  %0 = input() {dtype="f64", name="x", shape=[4, 3]} : f64[4, 3]
  %1 = constant() {dtype="f64", shape=[], value=2} : f64[]
  %2 = broadcast(%1) {dims=[], shape=[4, 3]} : f64[4, 3]
  %3 = mul(%0, %2) : f64[4, 3]
  %4 = constant() {dtype="i64", shape=[2], value=7} : i64[2]
  %5 = random_uniform(%4) {dtype="f64", shape=[4, 3], site=1} : f64[4, 3]
  %6 = lt(%5, %2) : bool[4, 3]
  %7 = select(%6, %3, %2) : f64[4, 3]
  %8 = iota() {axis=0, dtype="f64", shape=[4, 3]} : f64[4, 3]
  %10 = add(%7, %8) : f64[4, 3]
  %11 = reduce_sum(%10) {axes=[0]} : f64[3]
  %12 = reduce_sum(%3) {axes=[0]} : f64[3]
  %9 = add(%11, %12) : f64[3]
)",
                                 2),
                     R"(graph main {
  %0 = input() {dtype="f64", name="x", shape=[2, 3]} : f64[2, 3] acts 2
  %1 = constant() {dtype="f64", shape=[], value=2} : f64[]
  %2 = broadcast(%1) {dims=[], shape=[2, 3]} : f64[2, 3]
  %3 = mul(%0, %2) : f64[2, 3] acts 2
  %4 = constant() {dtype="i64", shape=[2], value=7} : i64[2]
  %5 = random_uniform(%4) {dtype="f64", logical=[4, 3], shape=[2, 3], site=1} : f64[2, 3] acts 2 {begin=[0, 0]} {begin=[2, 0]}
  %6 = lt(%5, %2) : bool[2, 3] acts 2
  %7 = select(%6, %3, %2) : f64[2, 3] acts 2
  %8 = iota() {axis=0, dtype="f64", shape=[4, 3]} : f64[4, 3]
  %9 = micro_slice(%8) {axis=0, parts=2} : f64[2, 3] acts 2
  %10 = add(%7, %9) : f64[2, 3] acts 2
  %11 = reduce_sum(%10) {axes=[0]} : f64[3] acts 2
  %12 = reduce_sum(%3) {axes=[0]} : f64[3] acts 2
  %13 = add(%11, %12) : f64[3] acts 2
  %14 = accumulate(%13) : f64[3] acts 2
  output "y" %14
}
)"));
}

TEST(MicroBatch, OutputsAreJoinedAndUpdatesWaitForAllMicroBatches) {
  EXPECT_TRUE(golden(split_batch(R"(
  variable "w" : f32[3] read %1 updated %9
  %0 = input() {dtype="f32", name="x", shape=[6, 3]} : f32[6, 3]
  %1 = variable() {dtype="f32", name="w", shape=[3]} : f32[3]
  %2 = exp(%0) : f32[6, 3]
  %3 = reduce_sum(%2) {axes=[0]} : f32[3]
  %4 = mul(%3, %1) : f32[3]
  %9 = assign(%1, %4) : f32[3]
)",
                                 3, "  output \"y\" %2\n  output \"x\" %0\n"),
                     R"(graph main {
  variable "w" : f32[3] read %2 updated %8
  %0 = input() {dtype="f32", name="x", shape=[2, 3]} : f32[2, 3] acts 3
  %1 = micro_join(%0) {axis=0, parts=3} : f32[6, 3] acts 3
  %2 = variable() {dtype="f32", name="w", shape=[3]} : f32[3]
  %3 = exp(%0) : f32[2, 3] acts 3
  %4 = micro_join(%3) {axis=0, parts=3} : f32[6, 3] acts 3
  %5 = reduce_sum(%3) {axes=[0]} : f32[3] acts 3
  %6 = accumulate(%5) : f32[3] acts 3
  %7 = mul(%6, %2) : f32[3]
  %8 = assign(%2, %7) : f32[3]
  output "y" %4
  output "x" %1
}
)"));
}

// The rows of a micro-batch on one device belong to one group. Values of the whole batch have the original order.
TEST(MicroBatch, AMicroBatchTakesRowsOfEachGroupAndResultsHaveTheOriginalOrder) {
  EXPECT_TRUE(golden(split_batch(R"(
  %0 = input() {dtype="f32", groups=2, name="x", shape=[12, 3]} : f32[12, 3]
  %1 = input() {array=true, dtype="f32", groups=2, name="y", shape=[12, 3]} : f32[12, 3]
  %9 = add(%0, %1) : f32[12, 3]
)",
                                 3),
                     R"(graph main {
  %0 = input() {dtype="f32", groups=2, name="x", shape=[4, 3]} : f32[4, 3] acts 3
  %1 = input() {array=true, dtype="f32", name="y", shape=[12, 3]} : f32[12, 3]
  %2 = reshape(%1) {shape=[2, 3, 2, 3]} : f32[2, 3, 2, 3]
  %3 = transpose(%2) {perm=[1, 0, 2, 3]} : f32[3, 2, 2, 3]
  %4 = micro_slice(%3) {axis=0, parts=3} : f32[1, 2, 2, 3] acts 3
  %5 = reshape(%4) {shape=[4, 3]} : f32[4, 3] acts 3
  %6 = add(%0, %5) : f32[4, 3] acts 3
  %7 = reshape(%6) {shape=[1, 2, 2, 3]} : f32[1, 2, 2, 3] acts 3
  %8 = micro_join(%7) {axis=0, parts=3} : f32[3, 2, 2, 3] acts 3
  %9 = transpose(%8) {perm=[1, 0, 2, 3]} : f32[2, 3, 2, 3]
  %10 = reshape(%9) {shape=[12, 3]} : f32[12, 3]
  output "y" %10
}
)"));
  EXPECT_THAT(error_of(R"(
  %0 = input() {dtype="f32", groups=2, name="x", shape=[6, 3]} : f32[6, 3]
  %9 = exp(%0) : f32[6, 3]
)",
                       2),
              HasSubstr("4 does not divide a dimension of 6 that is split with the batch of 6"));
  const auto pairs = [](int rows) {  // computes the maximum of every two adjacent rows
    return cat("  %0 = input() {dtype=\"f32\", groups=2, name=\"x\", shape=[", rows, "]} : f32[", rows,
               "]\n  %1 = reshape(%0) {shape=[", rows / 2, ", 2]} : f32[", rows / 2,
               ", 2]\n  %2 = reduce_max(%1) {axes=[1]} : f32[", rows / 2,
               "]\n  %9 = reduce_sum(%2) {axes=[0]} : f32[]\n");
  };
  EXPECT_THAT(error_of(pairs(8), 2), HasSubstr("output \"y\""));
  EXPECT_THAT(
      error_of(pairs(4), 2),
      HasSubstr(
          "4 does not divide a dimension of 2 that is split with the batch of 4, so that rows of different devices"));
}

// The gradient of a variable that has the size of the batch is computed in parts, and the update needs all parts.
TEST(MicroBatch, AnUpdateActsOnceForAnyLayoutOfItsGradient) {
  const std::string text = split_batch(R"(
  variable "w" : f32[4] read %1 updated %8
  variable "m" : f32[4] read %2 updated %9
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4]
  %1 = variable() {dtype="f32", name="w", shape=[4]} : f32[4]
  %2 = variable() {dtype="f32", name="m", shape=[4]} : f32[4]
  %3 = input() {dtype="f32", name="lr", shape=[]} : f32[]
  %4 = mul(%0, %1) : f32[4]
  %8, %9 = sgd(%1, %2, %4, %3) {momentum=0.5} : f32[4], f32[4]
)",
                                       2, "");
  EXPECT_THAT(text, AllOf(HasSubstr("micro_slice(%1) {axis=0, parts=2} : f32[2] acts 2"),
                          HasSubstr("micro_join(%5) {axis=0, parts=2} : f32[4] acts 2"),
                          HasSubstr("sgd(%1, %2, %6, %3) {momentum=0.5} : f32[4], f32[4]\n")));
}

// Flat labels are split with their sequences: 8 labels next to a batch of 4 are split at the input.
TEST(MicroBatch, AnInputOfADifferentSizeIsAlsoSplitIfOnlyItsPartsAreRead) {
  const std::string lines = R"(
  %0 = input() {dtype="f32", name="x", shape=[4, 2, 5]} : f32[4, 2, 5]
  %1 = input() {dtype="i32", name="y", shape=[8]} : i32[8]
  %2 = reshape(%0) {shape=[8, 5]} : f32[8, 5]
  %3 = one_hot(%1) {depth=5, dtype="f32"} : f32[8, 5]
  %4 = mul(%2, %3) : f32[8, 5]
  %9 = reduce_sum(%4) {axes=[0, 1]} : f32[]
)";
  EXPECT_THAT(split_batch(lines, 2),
              AllOf(HasSubstr("name=\"y\", shape=[4]} : i32[4] acts 2"), Not(HasSubstr("micro_slice"))));
  // The labels are also an output, which joins the parts.
  EXPECT_THAT(split_batch(lines, 2, "  output \"y\" %9\n  output \"labels\" %1\n"),
              HasSubstr("input() {dtype=\"i32\", name=\"y\", shape=[4]} : i32[4] acts 2"));
  EXPECT_THAT(split_batch(R"(
  %0 = input() {dtype="f32", name="x", shape=[4, 5]} : f32[4, 5]
  %1 = input() {dtype="f32", name="t", shape=[4, 3]} : f32[4, 3]
  %2 = input() {dtype="f32", name="z", shape=[8]} : f32[8]
  %3 = reshape(%2) {shape=[4, 2]} : f32[4, 2]
  %4 = reduce_sum(%3) {axes=[1]} : f32[4]
  %5 = broadcast(%4) {dims=[0], shape=[4, 5]} : f32[4, 5]
  %6 = mul(%0, %5) : f32[4, 5]
  %7 = reduce_max(%2) {axes=[0]} : f32[]
  %9 = reduce_sum(%6) {axes=[0, 1]} : f32[]
)",
                          2, "  output \"y\" %9\n  output \"m\" %7\n"),
              AllOf(HasSubstr("name=\"z\", shape=[8]} : f32[8]\n"), HasSubstr("micro_slice")));
}

const std::string x = R"(
  %0 = input() {dtype="f32", name="x", shape=[12, 3]} : f32[12, 3]
)";

TEST(MicroBatch, ACountThatDoesNotDivideTheBatchIsRejectedWithTheNearestDivisors) {
  const std::string lines = x + "  %9 = exp(%0) : f32[12, 3]\n";
  EXPECT_EQ(error_of(lines, 5), "microbatches=5 does not divide the batch of 12; nearest divisors: 4, 6");
  EXPECT_EQ(error_of(lines, 7), "microbatches=7 does not divide the batch of 12; nearest divisors: 6, 12");
  EXPECT_EQ(error_of(lines, 13), "microbatches=13 does not divide the batch of 12; nearest divisors: 12");
  EXPECT_EQ(error_of(lines, 0), "microbatches must be at least 1, got 0");
  EXPECT_EQ(error_of("  %9 = constant() {dtype=\"f32\", shape=[4], value=1} : f32[4]\n", 2),
            "microbatches=2, but no input of 'main' has a batch (a dimension 0 that is not empty)");
}

TEST(MicroBatch, AMaximumOverTheBatchIsRejectedWithItsLine) {
  EXPECT_EQ(error_of(x + "  %9 = reduce_max(%0) {axes=[0]} : f32[3] in \"norm\" at \"net.cc:5\"\n", 4),
            "reduce_max at net.cc:5 (norm) takes the max over the batch, which cannot be accumulated over "
            "microbatches=4: only sums can be; the batch of "
            "12 is dimension 0 of input 'x'");
}

TEST(MicroBatch, BatchStatisticsAreRejectedWithTheWaitingNodeAndItsProducer) {
  EXPECT_EQ(error_of(x + R"(
  %4 = input() {dtype="f32", name="w", shape=[3, 3]} : f32[3, 3]
  %5 = matmul(%0, %4) : f32[12, 3]
  %1 = reduce_sum(%5) {axes=[0]} : f32[3] at "norm.cc:3"
  %2 = neg(%1) : f32[3] at "norm.cc:4"
  %3 = broadcast(%2) {dims=[1], shape=[12, 3]} : f32[12, 3] at "norm.cc:5"
  %9 = add(%0, %3) : f32[12, 3] at "norm.cc:6"
)",
                     4),
            "add at norm.cc:6 works on one micro-batch, but waits for broadcast at norm.cc:5, which depends on "
            "reduce_sum at norm.cc:3, a sum over the "
            "whole batch: statistics of a batch cannot be accumulated with microbatches=4; the batch of 12 is "
            "dimension 0 of input 'x'");
}

TEST(MicroBatch, ANodeThatMixesRowsOfDifferentPartsIsRejected) {
  EXPECT_EQ(error_of(x + R"(
  %1 = input() {dtype="f32", name="t", shape=[12, 3]} : f32[12, 3]
  %9 = concat(%0, %1) {axis=0} : f32[24, 3] at "net.cc:9"
)",
                     4),
            "concat at net.cc:9 needs more of the batch than one micro-batch of microbatches=4: its operands are "
            "f32[12, 3] with the batch in dimension 0, "
            "f32[12, 3] with the batch in dimension 0; the batch of 12 is dimension 0 of the inputs 'x', 't'; an input "
            "of this length that is not a batch must be declared as unbatched");
}

// The number of labels is computed once, from the whole batch, and the loss is accumulated over the micro-batches.
TEST(MicroBatch, SumsOfInputsAreComputedBeforeTheFirstMicroBatch) {
  EXPECT_TRUE(golden(split_batch(R"(
  %0 = input() {dtype="f32", name="x", shape=[8, 3]} : f32[8, 3]
  %1 = input() {dtype="f32", name="weight", shape=[8]} : f32[8]
  %2 = reduce_sum(%1) {axes=[0]} : f32[]
  %3 = broadcast(%2) {dims=[], shape=[8]} : f32[8]
  %4 = div(%1, %3) : f32[8]
  %5 = broadcast(%4) {dims=[0], shape=[8, 3]} : f32[8, 3]
  %6 = mul(%0, %5) : f32[8, 3]
  %9 = reduce_sum(%6) {axes=[0]} : f32[3]
)",
                                 4),
                     R"(graph main {
  %0 = input() {dtype="f32", name="x", shape=[2, 3]} : f32[2, 3] acts 4
  %1 = input() {dtype="f32", name="weight", shape=[8]} : f32[8]
  %2 = micro_slice(%1) {axis=0, parts=4} : f32[2] acts 4
  %3 = reduce_sum(%1) {axes=[0]} : f32[]
  %4 = broadcast(%3) {dims=[], shape=[2]} : f32[2]
  %5 = div(%2, %4) : f32[2] acts 4
  %6 = broadcast(%5) {dims=[0], shape=[2, 3]} : f32[2, 3] acts 4
  %7 = mul(%0, %6) : f32[2, 3] acts 4
  %8 = reduce_sum(%7) {axes=[0]} : f32[3] acts 4
  %9 = accumulate(%8) : f32[3] acts 4
  output "y" %9
}
)"));
}

TEST(MicroBatch, AnUnbatchedInputWithAsManyRowsAsTheBatchIsNotSplit) {
  const Graph graph = parse_graph(R"(graph main {
  %0 = input() {dtype="f32", name="mask", shape=[4, 4], unbatched=true} : f32[4, 4]
  %1 = input() {dtype="f32", name="x", shape=[4, 4]} : f32[4, 4]
  %2 = matmul(%1, %0) : f32[4, 4]
  output "y" %2
}
)",
                                  table());
  const Graph result = microbatch(graph, table(), 2);
  verify(result);
  EXPECT_THAT(print(result), HasSubstr("name=\"mask\", shape=[4, 4]} : f32[4, 4]\n"));
  EXPECT_THAT(print(result), HasSubstr("matmul(%1, %0) : f32[2, 4] acts 2"));
}

// The work and transfers of a node that acts four times count four times.
TEST(MicroBatch, ShardCountsTheCostOfEachAct) {
  auto cost = [](const std::string& acts) {
    const std::string text = cat(R"(graph main mesh(data=2) {
  %0 = input() {dtype="f32", name="x", shape=[6, 1000]} : f32[6@data, 1000])",
                                 acts, R"(
  %1 = exp(%0) : f32[6, 1000;])",
                                 acts, R"(
  %2 = accumulate(%1) : f32[6, 1000;])",
                                 acts, R"(
  output "y" %2
})");
    return shard(parse_graph(text, table()), CostTable()).cost;
  };
  EXPECT_GT(cost(""), 0);
  EXPECT_DOUBLE_EQ(cost(" acts 4"), 4 * cost(""));
}

// The gradients of a shared weight are accumulated separately if one of them has another reader.
TEST(MicroBatch, ASumThatIsReadTwiceIsAccumulatedBeforeItsReaders) {
  const std::string text = split_batch(x + R"(
  %1 = reduce_sum(%0) {axes=[0]} : f32[3]
  %2 = add(%1, %1) : f32[3]
  %9 = mul(%1, %2) : f32[3]
)",
                                       2);
  EXPECT_THAT(text, HasSubstr("%2 = accumulate(%1) : f32[3] acts 2\n  %3 = add(%2, %2) : f32[3]\n"));
}

}  // namespace
}  // namespace karez::passes
