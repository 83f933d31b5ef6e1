// Tests copies of elements and their loops against values computed by hand and against index arithmetic.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "karez/kernels/cpu/copy_plan.h"
#include "karez/kernels/cpu/kernel_buffer.h"
#include "karez/kernels/cpu/test_strides.h"

namespace karez::kernels {
namespace {

std::vector<float> count_up(std::int64_t count) {
  std::vector<float> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), 0.0f);
  return out;
}
View f32(Shape shape) { return View(DType::f32, std::move(shape)); }

TEST(Loops, AdjacentLoopsWithoutAGapAreMerged) {
  const Loops loops = loops_over({2, 3, 4}, {Strides{12, 4, 1}, Strides{24, 8, 2}}, Order::logical);
  EXPECT_EQ(loops.rank, 1);
  EXPECT_EQ(loops.inner(), 24);
  EXPECT_EQ(loops.step(1), 2);
}

TEST(Loops, AScalarHasOneIterationAndAnEmptyShapeHasNone) {
  int rounds = 0;
  for_each_element(loops_over({}, {Strides{}}, Order::logical), [&](const auto&) { ++rounds; });
  EXPECT_EQ(rounds, 1);
  for_each_element(loops_over({3, 0}, {Strides{1, 1}}, Order::logical), [&](const auto&) { ++rounds; });
  EXPECT_EQ(rounds, 1);
}

TEST(Copy, APlanHasTheKindThatMatchesTheStrides) {
  using Kind = CopyPlan::Kind;
  const Shape shape{2, 16, 8, 8};
  EXPECT_EQ(plan_copy(shape, row_major(shape), row_major(shape), 4).kind, Kind::runs);
  const CopyPlan nchw = plan_copy(shape, channels_last(shape), row_major(shape), 4);
  EXPECT_EQ(nchw.kind, Kind::transpose);
  EXPECT_EQ(nchw.loops.rank, 3);  // h and w are merged into one loop
  EXPECT_EQ(plan_copy(shape, row_major(shape), channels_last(shape), 4).kind, Kind::transpose);
  EXPECT_EQ(plan_copy({3, 4}, {4, 1}, {1, 0}, 4).kind, Kind::fill);
  EXPECT_EQ(plan_copy({3, 4}, {8, 2}, {4, 1}, 4).kind, Kind::strided);
}

TEST(Copy, EveryElementIsCopiedOnceForEachTypeAndPairOfStrides) {
  const unsigned seed = test_seed();
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const Shape shape = random_shape(random, 5, 20);
    for (DType dtype : {DType::f32, DType::f64, DType::b8}) {
      const View to = random_view(random, dtype, shape), from = random_view(random, dtype, shape);
      SCOPED_TRACE(cat("seed ", seed, " round ", round, ": ", from, " to ", to));
      with_type(dtype, [&]<class T>() {
        std::vector<T> values;
        for (std::int64_t i = 0; i < to.count(); ++i) values.push_back(static_cast<T>(random() % 100));
        auto out = run_plain("copy", {filled<T>(from, values)}, {to});
        ASSERT_EQ(logical<T>(out[0]), values);
      });
    }
  }
}

TEST(Copy, BytesBetweenTheOutputElementsAreUnchanged) {
  auto out = run_plain("copy", {filled<float>({2, 2}, {1, 2, 3, 4})}, {View(DType::f32, {2, 2}, {4, 2})});
  EXPECT_EQ(out[0].bytes[4], Buffer::unwritten);
}

TEST(Reshape, TheLogicalOrderIsKeptForAllStrides) {
  const unsigned seed = test_seed();
  std::mt19937 random(seed);
  const std::vector<std::pair<Shape, Shape>> cases = {{{2, 3, 4, 5}, {2, 60}}, {{2, 60}, {2, 3, 4, 5}},
                                                      {{6, 4}, {2, 12}},       {{2, 3}, {3, 2}},
                                                      {{4, 6}, {6, 4}},        {{1, 1}, {}},
                                                      {{0, 3}, {3, 0}},        {{2, 1, 3}, {3, 2, 1}}};
  for (const auto& [from_shape, to_shape] : cases)
    for (int round = 0; round < 10; ++round) {
      const View from = random_view(random, DType::f32, from_shape), to = random_view(random, DType::f32, to_shape);
      SCOPED_TRACE(cat("seed ", seed, ": ", from, " to ", to));
      auto out = run_plain("reshape", {filled<float>(from, count_up(from.count()))}, {to});
      ASSERT_EQ(logical<float>(out[0]), count_up(to.count()));
    }
}

TEST(Reshape, ADifferentNumberOfElementsIsAnError) {
  EXPECT_THROW(run_plain("reshape", {filled<float>({2}, {1, 2})}, {f32({3})}), Error);
}

TEST(Transpose, DimensionIOfTheResultIsDimensionPermIOfTheInput) {
  auto out = run_plain("transpose", {filled<float>({2, 3}, {0, 1, 2, 3, 4, 5})}, {f32({3, 2})}, {{"perm", Ints{1, 0}}});
  EXPECT_EQ(logical<float>(out[0]), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  out = run_plain("transpose", {filled<float>({2, 3, 4}, count_up(24))}, {f32({4, 2, 3})}, {{"perm", Ints{2, 0, 1}}});
  EXPECT_EQ(out[0].at<float>({3, 1, 2}), 1 * 12 + 2 * 4 + 3);
}

TEST(Slice, TheBoxIsCopiedAndABoxOutsideTheInputIsAnError) {
  auto out = run_plain("slice", {filled<float>({3, 4}, count_up(12))}, {f32({2, 2})},
                       {{"begin", Ints{1, 2}}, {"size", Ints{2, 2}}});
  EXPECT_EQ(logical<float>(out[0]), (std::vector<float>{6, 7, 10, 11}));
  EXPECT_THROW(
      run_plain("slice", {filled<float>({3}, count_up(3))}, {f32({2})}, {{"begin", Ints{2}}, {"size", Ints{2}}}),
      Error);
  EXPECT_TRUE(logical<float>(run_plain("slice", {filled<float>({3}, count_up(3))}, {f32({0})},
                                       {{"begin", Ints{3}}, {"size", Ints{0}}})[0])
                  .empty());
}

TEST(Broadcast, ElementsAreRepeatedAlongNewDimensions) {
  auto out =
      run_plain("broadcast", {filled<float>({2}, {7, 8})}, {f32({2, 3})}, {{"dims", Ints{0}}, {"shape", Ints{2, 3}}});
  EXPECT_EQ(logical<float>(out[0]), (std::vector<float>{7, 7, 7, 8, 8, 8}));
  out = run_plain("broadcast", {filled<float>({2}, {7, 8})}, {f32({3, 2})}, {{"dims", Ints{1}}});
  EXPECT_EQ(logical<float>(out[0]), (std::vector<float>{7, 8, 7, 8, 7, 8}));
  out = run_plain("broadcast", {filled<float>(Shape{}, {5})}, {f32({3})}, {{"dims", Ints{}}});
  EXPECT_EQ(logical<float>(out[0]), (std::vector<float>{5, 5, 5}));
}

TEST(Concat, InputsArePlacedInSequence) {
  auto out = run_plain("concat",
                       {filled<float>({2, 1}, {1, 2}), filled<float>({2, 0}, {}), filled<float>({2, 2}, {3, 4, 5, 6})},
                       {f32({2, 3})}, {{"axis", Attr(std::int64_t{1})}});
  EXPECT_EQ(logical<float>(out[0]), (std::vector<float>{1, 3, 4, 2, 5, 6}));
  EXPECT_THROW(run_plain("concat", {filled<float>({1}, {1})}, {f32({3})}, {{"axis", Attr(std::int64_t{0})}}), Error);
}

TEST(Pad, TheInputIsSurroundedWithTheValue) {
  auto out = run_plain("pad", {filled<float>({1, 2}, {1, 2})}, {f32({2, 4})},
                       {{"low", Ints{1, 0}}, {"high", Ints{0, 2}}, {"value", 9.0}});
  EXPECT_EQ(logical<float>(out[0]), (std::vector<float>{9, 9, 9, 9, 1, 2, 9, 9}));
  out = run_plain("pad", {filled<float>({0}, {})}, {f32({2})}, {{"low", Ints{2}}, {"high", Ints{0}}, {"value", 0.0}});
  EXPECT_EQ(logical<float>(out[0]), (std::vector<float>{0, 0}));
}

}  // namespace
}  // namespace karez::kernels
