// Tests of the parts, nested boxes, text and validity of layouts.
#include "karez/sbp/sbp.h"

#include <gtest/gtest.h>

#include "karez/base/error.h"

namespace karez::sbp {
namespace {
const Mesh two_by_two = Mesh::parse("data=2,model=2");

TEST(Sbp, TheFirstPartsAreOneElementLonger) {
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < 4; ++i) sizes.push_back(part_of({0, 6}, 4, i).size());
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{2, 2, 1, 1}));
  EXPECT_EQ(part_of({10, 16}, 4, 2), (Range{14, 15}));
  EXPECT_EQ(part_of({0, 2}, 3, 2), (Range{2, 2}));  // the last part is empty
  EXPECT_EQ(part_of({5, 5}, 3, 1), (Range{5, 5}));
  EXPECT_THROW(part_of({0, 6}, 4, 4), Error);
}

TEST(Sbp, PartsTileTheirRange) {
  for (int size = 0; size < 20; ++size)
    for (int parts = 1; parts < 8; ++parts) {
      std::int64_t next_begin = 3;
      for (int i = 0; i < parts; ++i) {
        Range part = part_of({3, 3 + size}, parts, i);
        EXPECT_EQ(part.begin, next_begin);
        next_begin = part.end;
      }
      EXPECT_EQ(next_begin, 3 + size);
    }
}

TEST(Sbp, SplitsNestInMeshAxisOrder) {
  std::vector<std::int64_t> sizes;
  for (int p = 0; p < 4; ++p) sizes.push_back(local_box({6}, two_by_two, {S(0), S(0)}, p)[0].size());
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{2, 1, 2, 1}));  // not 2, 2, 1, 1
  EXPECT_EQ(local_box({6}, two_by_two, {S(0), S(0)}, 1)[0], (Range{2, 3}));
  EXPECT_EQ(local_box({6}, two_by_two, {S(0), S(0)}, 2)[0], (Range{3, 5}));
}

TEST(Sbp, DevicesOfABroadcastOrPartialAxisHoldTheFullBox) {
  EXPECT_EQ(local_box({6, 4}, two_by_two, {B(), P()}, 3), full_box({6, 4}));
  EXPECT_EQ(local_box({6, 4}, two_by_two, {P(), S(1)}, 3), (Box{{0, 6}, {2, 4}}));
  EXPECT_EQ(local_box({}, two_by_two, {P(), B()}, 3), Box{});
}

TEST(Sbp, BoxesOfBadLayoutsAreErrors) {
  EXPECT_THROW(local_box({6}, two_by_two, {S(0)}, 0), Error);
  EXPECT_THROW(local_box({6}, two_by_two, {S(1), B()}, 0), Error);
  EXPECT_THROW(local_box({6}, two_by_two, {B(), B()}, 4), Error);
}

TEST(Sbp, IntersectionsOfDisjointBoxesAreEmpty) {
  EXPECT_EQ(intersect({{0, 4}, {2, 6}}, {{2, 8}, {0, 3}}), (Box{{2, 4}, {2, 3}}));
  EXPECT_TRUE(empty(intersect({{0, 4}}, {{5, 8}})));
  EXPECT_EQ(intersect({{0, 4}}, {{5, 8}})[0].size(), 0);
  EXPECT_FALSE(empty(Box{}));  // a scalar has an element
  EXPECT_THROW(intersect({{0, 1}}, {}), Error);
  EXPECT_EQ(shape_of({{2, 5}, {1, 1}}), (Shape{3, 0}));
}

TEST(Sbp, ThePrintedLayoutShowsEachAxisAtTheDimensionItSplits) {
  EXPECT_EQ(print(S(1)), "S(1)");
  EXPECT_EQ(print(B()), "B");
  EXPECT_EQ(print(P(Reduce::max)), "P(max)");
  EXPECT_EQ(print(Layout{S(0), B()}), "(S(0), B)");
  TensorType type{DType::f32, {8, 4}};
  EXPECT_EQ(print(type, two_by_two, {S(0), B()}), "f32[8@data, 4]");
  EXPECT_EQ(print(type, two_by_two, {S(0), S(0)}), "f32[8@data@model, 4]");
  EXPECT_EQ(print(type, two_by_two, {S(0), P()}), "f32[8@data, 4; sum@model]");
  EXPECT_EQ(print(type, two_by_two, {P(Reduce::min), P(Reduce::min)}), "f32[8, 4; min@data@model]");
  EXPECT_EQ(print(type, two_by_two, broadcast_layout(two_by_two)), "f32[8, 4;]");
  EXPECT_EQ(print({DType::f64, {}}, two_by_two, {P(), B()}), "f64[; sum@data]");
}

TEST(Sbp, EntriesHaveATotalOrder) {
  Layout order{S(0), S(1), B(), P(), P(Reduce::max), P(Reduce::min)};
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(Sbp, InvalidLayoutsAreRejectedWithAReason) {
  auto reason = [](const TensorType& type, const Layout& layout) {
    std::string text;
    EXPECT_FALSE(is_valid(type, two_by_two, layout, &text));
    EXPECT_FALSE(is_valid(type, two_by_two, layout));
    return text;
  };
  TensorType type{DType::f32, {8}};
  EXPECT_EQ(reason(type, {B()}),
            "layout (B) of f32[8] on mesh(data=2, model=2): expected 2 entries, one for each axis, got 1");
  EXPECT_EQ(reason(type, {B(), S(1)}), "layout (B, S(1)) of f32[8] on mesh(data=2, model=2): there is no dimension 1");
  EXPECT_EQ(
      reason(type, {P(), P(Reduce::max)}),
      "layout (P(sum), P(max)) of f32[8] on mesh(data=2, model=2): a value must have one kind of Partial, got P(sum) "
      "and P(max)");
  EXPECT_EQ(reason({DType::b8, {8}}, {P(), B()}),
            "layout (P(sum), B) of bool[8] on mesh(data=2, model=2): a bool cannot be a partial sum");
  EXPECT_EQ(
      reason({DType::bf16, {8}}, {P(), B()}),
      "layout (P(sum), B) of bf16[8] on mesh(data=2, model=2): a bf16 cannot be a partial sum: it is rounded from "
      "a complete f32 sum");
  EXPECT_TRUE(is_valid({DType::f16, {8}}, two_by_two, {P(Reduce::max), B()}));
  EXPECT_TRUE(is_valid({DType::b8, {8}}, two_by_two, {P(Reduce::max), S(0)}));
  EXPECT_TRUE(is_valid({DType::f32, {0}}, two_by_two, {S(0), S(0)}));
}

}  // namespace
}  // namespace karez::sbp
