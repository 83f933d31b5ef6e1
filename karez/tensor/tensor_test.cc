// Tests of dtypes, shapes, strides and views.
#include "karez/tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "karez/base/test_error.h"

namespace karez::tensor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DType, NamesAreParsedAndWithTypePassesTheElementType) {
  for (DType d : all_dtypes) {
    EXPECT_EQ(dtype_from(name_of(d)), d);
    with_type(d, [&]<class T>() {
      EXPECT_EQ(dtype_of<T>(), d);
      EXPECT_EQ(static_cast<std::int64_t>(sizeof(T)), size_of(d));
    });
  }
  EXPECT_EQ(error_of([] { dtype_from("f8"); }),
            "unknown dtype 'f8'; expected one of: f32, f64, i32, i64, bool, bf16, f16, u8");
  EXPECT_TRUE(is_float(DType::f64));
  EXPECT_FALSE(is_float(DType::b8));
  EXPECT_THROW(with_type(static_cast<DType>(9), []<class T>() {}), Error);
}

TEST(DType, NamesEqualThoseOfTheTextFormat) {
  std::vector<std::string_view> names;
  for (DType d : all_dtypes) names.push_back(name_of(d));
  EXPECT_THAT(names, ElementsAre("f32", "f64", "i32", "i64", "bool", "bf16", "f16", "u8"));
}

TEST(Shape, TheCountIsTheProductAndOverflowIsAnError) {
  EXPECT_EQ(count_of({}), 1);
  EXPECT_EQ(count_of({2, 3, 4}), 24);
  EXPECT_EQ(count_of({2, 0, 4}), 0);
  EXPECT_THAT(error_of([] { count_of({2, -1}); }), HasSubstr("a shape has a negative size: [2, -1]"));
  EXPECT_THAT(error_of([] { count_of({std::int64_t{1} << 40, std::int64_t{1} << 40}); }), HasSubstr("overflows"));
  EXPECT_THAT(error_of([] { (TensorType{DType::f64, {std::int64_t{1} << 61}}).bytes(); }), HasSubstr("overflows"));
}

TEST(TensorType, ParsingAndPrintingGiveTheSameText) {
  for (const char* text : {"f32[64, 10]", "i64[]", "bool[0]", "bf16[2]", "f16[]"}) {
    Scanner in(text, "type");
    EXPECT_EQ(print(parse_type(in)), text);
    EXPECT_TRUE(in.at_end());
  }
  auto error = [](std::string_view text) {
    return error_of([&] {
      Scanner in(text, "type");
      parse_type(in);
    });
  };
  EXPECT_EQ(error("f8[2]"),
            "type: line 1, column 1: unknown dtype 'f8'; expected one of: f32, f64, i32, i64, bool, bf16, f16, u8 at "
            "'f8[2]'");
  EXPECT_EQ(error("f32[2, -3]"), "type: line 1, column 8: a size or a stride is negative at '-3]'");
  EXPECT_EQ(error("f32[2"), "type: line 1, column 6: expected ',' at the end");
  EXPECT_EQ(error("f32"), "type: line 1, column 4: expected '[' at the end");
}

TEST(Strides, RowMajorHasTheLastDimensionFastest) {
  EXPECT_THAT(row_major({2, 3, 4}), ElementsAre(12, 4, 1));
  EXPECT_THAT(row_major({}), ElementsAre());
  EXPECT_THAT(row_major({2, 0, 4}), ElementsAre(4, 4, 1)) << "an empty dimension keeps the other strides positive";
}

TEST(Strides, ChannelsLastHasChannelsFastest) {
  EXPECT_THAT(channels_last({2, 3, 4, 5}), ElementsAre(60, 1, 15, 3));
  EXPECT_EQ(channels_last({2, 3, 4}), row_major({2, 3, 4})) << "other ranks are row-major";
  Shape shape{2, 3, 4, 5};
  std::set<std::int64_t> offsets;
  for_each_index(shape, [&](const auto& index) { offsets.insert(offset_of(index, channels_last(shape))); });
  EXPECT_EQ(offsets.size(), 120u);
  EXPECT_EQ(*offsets.rbegin(), 119);
}

TEST(Strides, DenseStridesAreAPermutationWithoutGapsOrOverlap) {
  Shape shape{2, 3, 4, 5};
  EXPECT_TRUE(is_dense(shape, row_major(shape)));
  EXPECT_TRUE(is_dense(shape, channels_last(shape)));
  EXPECT_TRUE(is_dense({2, 3}, {1, 2}));
  EXPECT_TRUE(is_dense({2, 1, 3}, {3, 77, 1})) << "the stride of a dimension of size one is ignored";
  EXPECT_TRUE(is_dense({}, {}));
  EXPECT_TRUE(is_dense({0, 3}, {9, 9}));
  EXPECT_FALSE(is_dense({2, 3}, {4, 1})) << "strides with a gap";
  EXPECT_FALSE(is_dense({2, 3}, {0, 1})) << "strides of an alias";
  EXPECT_FALSE(is_dense({2, 2}, {1, 1})) << "strides of overlapping rows";
  EXPECT_FALSE(is_dense({3}, {2}));
}

TEST(Strides, SameOrderIgnoresStridesThatAreNeverUsed) {
  EXPECT_TRUE(same_order({1, 3}, {100, 1}, {3, 1}));
  EXPECT_TRUE(same_order({0, 3}, {7, 7}, {3, 1}));
  EXPECT_FALSE(same_order({2, 3}, {1, 2}, {3, 1}));
  EXPECT_TRUE(View(DType::f32, {1, 3}, {100, 1}).contiguous());
  EXPECT_FALSE(View(DType::f32, {2, 3}, {1, 2}).contiguous());
  EXPECT_FALSE(View(DType::f32, {2, 3, 4, 5}, channels_last({2, 3, 4, 5})).contiguous());
}

TEST(View, TheExtentReachesToTheLastAccessedElement) {
  EXPECT_EQ(View(DType::f32, {2, 3}).extent(), 6);
  EXPECT_EQ(View(DType::f32, {2, 3}, {10, 1}).extent(), 13);
  EXPECT_EQ(View(DType::f32, {2, 3}, {0, 1}).extent(), 3) << "a broadcast alias accesses one row";
  EXPECT_EQ(View(DType::f32, {}).extent(), 1);
  EXPECT_EQ(View(DType::f32, {2, 0}).extent(), 0);
  EXPECT_EQ(View(DType::f64, {2, 3}, {10, 1}).bytes(), 104);
}

TEST(View, ParsingAndPrintingGiveTheSameText) {
  for (const char* text : {"f32[2, 3]", "f32[2, 3]{1, 2}", "bool[]", "f32[4, 4]{0, 1}", "i32[1, 3]{9, 1}"}) {
    Scanner in(text, "view");
    View view = parse_view(in);
    EXPECT_EQ(print(view), text);
    EXPECT_TRUE(in.at_end());
  }
  EXPECT_EQ(print(View(DType::f32, {2, 3}, {3, 1})), "f32[2, 3]") << "row-major strides are not shown";
  auto error = [](std::string_view text) {
    return error_of([&] {
      Scanner in(text, "view");
      parse_view(in);
    });
  };
  EXPECT_THAT(error("f32[2, 3]{1}"), HasSubstr("must have one stride for each dimension"));
  EXPECT_THAT(error("f32[2, 3]{1, -2}"), HasSubstr("column 14: a size or a stride is negative"));
}

TEST(Index, EveryIndexIsVisitedInRowMajorOrder) {
  std::vector<std::int64_t> offsets;
  for_each_index({2, 3}, [&](const auto& index) { offsets.push_back(offset_of(index, row_major({2, 3}))); });
  EXPECT_THAT(offsets, ElementsAre(0, 1, 2, 3, 4, 5));
  int visits = 0;
  for_each_index({}, [&](const auto&) { ++visits; });
  EXPECT_EQ(visits, 1) << "a scalar has one index";
  for_each_index({3, 0}, [&](const auto&) { ++visits; });
  EXPECT_EQ(visits, 1) << "an empty shape has no index";
}

}  // namespace
}  // namespace karez::tensor
