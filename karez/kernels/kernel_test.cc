// Tests of the kernel table: choice by rank, suggested strides, and errors that list similar names.
#include "karez/kernels/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "karez/base/test_error.h"

namespace karez::kernels {
namespace {

using testing::HasSubstr;

KernelRow row(std::string name, std::string op, int rank, std::function<bool(const CallSpec&)> supports) {
  return {
      std::move(name),     std::move(op), rank,
      std::move(supports), nullptr,       [](const CallSpec&) -> PreparedKernel { return [](const KernelArgs&) {}; }};
}
bool always(const CallSpec&) { return true; }
bool is_channels_last(const CallSpec& call) {
  return same_order(call.in[0].shape, call.in[0].strides, channels_last(call.in[0].shape));
}

CallSpec call_on(std::string op, View x) {
  CallSpec call;
  call.op = std::move(op);
  call.in = {x};
  call.out = {x};
  return call;
}
const View row_major_view(DType::f32, {2, 3, 4, 5});
const View channels_last_view(DType::f32, {2, 3, 4, 5}, channels_last({2, 3, 4, 5}));

TEST(KernelTable, TheSupportedRowWithTheHighestRankRuns) {
  KernelTable table({row("plain.a", "a", 0, always), row("best.a", "a", 2, is_channels_last),
                     row("good.a", "a", 1, always), row("plain.b", "b", 9, always)});
  EXPECT_EQ(table.find(call_on("a", row_major_view))->kernel, "good.a");
  EXPECT_EQ(table.find(call_on("a", channels_last_view))->kernel, "best.a");
  EXPECT_FALSE(table.find(call_on("c", channels_last_view)).has_value());
}

TEST(KernelTable, TheFirstOfTwoEqualRowsRuns) {
  KernelTable table({row("first", "a", 1, always), row("second", "a", 1, always)});
  EXPECT_EQ(table.find(call_on("a", channels_last_view))->kernel, "first");
}

TEST(KernelTable, TheChoiceIncludesTheWorkspace) {
  KernelRow with_workspace = row("a", "a", 0, always);
  with_workspace.workspace = [](const CallSpec& call) { return call.in[0].count(); };
  EXPECT_EQ(KernelTable({with_workspace}).find(call_on("a", channels_last_view))->workspace, 120);
}

TEST(KernelTable, TheChoiceIncludesTheRate) {
  KernelRow slow = row("slow", "a", 0, always), fast = row("fast", "b", 0, always);
  slow.rate = 0.25;
  KernelTable table({slow, fast});
  EXPECT_EQ(table.find(call_on("a", channels_last_view))->rate, 0.25);
  EXPECT_EQ(table.find(call_on("b", channels_last_view))->rate, 1);
  for (const KernelRow& plain : plain_kernels()) EXPECT_LT(plain.rate, 1) << plain.name;
  for (double rate : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    slow.rate = rate;
    EXPECT_THAT(error_of([&] { KernelTable({slow}); }),
                HasSubstr("kernel 'slow' must have a rate above 0 and below 1e6, got "))
        << rate;
  }
}

TEST(KernelTable, StridesOfABetterRowAreSuggested) {
  KernelTable table({row("plain.a", "a", 0, always), row("best.a", "a", 2, is_channels_last)});
  EXPECT_EQ(table.suggest(call_on("a", row_major_view))->in[0], channels_last_view);
  EXPECT_FALSE(table.suggest(call_on("b", channels_last_view)).has_value());
}

TEST(KernelTable, ACallKeepsItsStridesIfNoOrderIsBetter) {
  KernelTable table({row("plain.a", "a", 0, always)});
  const View strided(DType::f32, {2, 3}, {7, 2});
  EXPECT_EQ(table.suggest(call_on("a", strided))->in[0], strided);
}

TEST(KernelTable, ARepeatedOperandKeepsItsZeroStride) {
  KernelTable table({row("plain.a", "a", 0, [](const CallSpec& call) { return call.out[0].contiguous(); })});
  CallSpec call = call_on("a", View(DType::f32, {2, 3}, {0, 1}));
  call.out[0].strides = {1, 2};
  const CallSpec suggested = *table.suggest(call);
  EXPECT_EQ(suggested.in[0].strides, (Strides{0, 1}));
  EXPECT_EQ(suggested.out[0].strides, (Strides{3, 1}));
}

TEST(KernelTable, RowsAreListedByDescendingRank) {
  KernelTable table({row("plain.a", "a", 0, always), row("good.a", "a", 1, always)});
  EXPECT_EQ(table.list("a"), "kernels of 'a', highest rank first: good.a, plain.a");
  EXPECT_EQ(table.list("b"), "no kernel implements 'b'");
}

TEST(KernelTable, TheErrorForAnUnknownNameListsSimilarNames) {
  KernelTable table(plain_kernels());
  EXPECT_EQ(table.row("plain.matmul").op, "matmul");
  EXPECT_THAT(error_of([&] { table.row("plain.matmull"); }),
              HasSubstr("unknown kernel 'plain.matmull'; the nearest of "));
  EXPECT_THAT(error_of([&] { table.row("plain.matmull"); }), HasSubstr(" are: plain.matmul, "));
  EXPECT_THAT(error_of([&] { table.row("cuda.matmul"); }), HasSubstr(" are: plain.matmul, "));
  EXPECT_EQ(error_of([] { KernelTable({row("x", "a", 0, always)}).row("y"); }), "unknown kernel 'y'; there is 1: x");
}

TEST(KernelTable, TwoRowsWithTheSameNameAreAnError) {
  EXPECT_EQ(error_of([] {
              KernelTable({row("x", "a", 0, always), row("x", "b", 0, always)});
            }),
            "two kernels are called 'x'");
}

TEST(KernelTable, ARowWithoutAKernelIsAnError) {
  EXPECT_EQ(error_of([] {
              KernelTable({KernelRow{"x", "a", 0, always, nullptr, nullptr}});
            }),
            "kernel 'x' lacks `supports` or `prepare`");
}

}  // namespace
}  // namespace karez::kernels
