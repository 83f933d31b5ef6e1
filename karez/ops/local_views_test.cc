// Tests the strides of windows by brute force over every index.
#include "karez/ops/local_views.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>

namespace karez::ops {
namespace {

std::vector<std::int64_t> addresses(const Shape& shape, const Strides& strides) {  // in logical row-major order
  std::vector<std::int64_t> out;
  for_each_index(shape, [&](const std::vector<std::int64_t>& index) { out.push_back(offset_of(index, strides)); });
  return out;
}

// Returns whether any strides give these addresses for `shape`: the stride of a dimension must be the step to its
// second element.
bool have_strides(const std::vector<std::int64_t>& expected, const Shape& shape) {
  Strides strides(shape.size(), 0), rows = row_major(shape);
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] > 1) strides[d] = expected[static_cast<std::size_t>(rows[d])] - expected[0];
  return addresses(shape, strides) == expected;
}

Shape random_split(std::mt19937_64& random, std::int64_t count, bool with_ones) {  // dimensions with this product
  Shape shape;
  while (count > 1) {
    std::int64_t factor = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
    while (count % factor != 0) --factor;
    if (factor > 1) shape.push_back(factor);
    count /= factor;
  }
  std::shuffle(shape.begin(), shape.end(), random);
  for (int k = 0; with_ones && k < 2; ++k)
    if (random() % 3 == 0) shape.insert(shape.begin() + static_cast<long>(random() % (shape.size() + 1)), 1);
  return shape;
}

TEST(ReshapeStrides, StridesAreCorrectAndFoundIfTheyExist) {
  const char* text = std::getenv("KAREZ_SEED");
  std::uint64_t seed = text ? std::strtoull(text, nullptr, 10) : 5;
  RecordProperty("seed", std::to_string(seed));
  int found = 0, missing = 0;
  for (std::uint64_t round = 0; round < 20000; ++round) {
    std::mt19937_64 random(seed + round);
    std::int64_t counts[] = {1, 2, 4, 6, 8, 12, 24, 30, 36};
    std::int64_t count = counts[random() % 9];
    View view;
    view.shape = random_split(random, count, true);
    // Strides are a permutation of dense ones, sometimes with a gap, a repetition, or any stride for size 1.
    std::vector<std::size_t> order(view.shape.size());
    for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
    if (random() % 3 == 0) std::shuffle(order.begin(), order.end(), random);
    view.strides.assign(view.shape.size(), 1);
    std::int64_t step = 1;
    for (std::size_t k = order.size(); k-- > 0;) {
      if (random() % 6 == 0) step *= 2;
      bool is_repeated = random() % 8 == 0;
      view.strides[order[k]] = is_repeated                 ? 0
                               : view.shape[order[k]] == 1 ? static_cast<std::int64_t>(random() % 50)
                                                           : step;
      if (!is_repeated) step *= view.shape[order[k]];
    }
    Shape shape = random_split(random, count, true);
    auto expected = addresses(view.shape, view.strides);
    auto strides = reshape_strides(view, shape);
    ASSERT_EQ(strides.has_value(), have_strides(expected, shape))
        << print(view) << " as " << cat(shape) << " KAREZ_SEED=" << seed + round;
    (strides ? found : missing) += 1;
    if (strides) {
      ASSERT_EQ(addresses(shape, *strides), expected)
          << print(view) << " as " << cat(shape) << " KAREZ_SEED=" << seed + round;
    }
  }
  EXPECT_GT(found, 4000);
  EXPECT_GT(missing, 2000);
}

TEST(ReshapeStrides, RunsOfDimensionsAreSplitAndMerged) {
  View dense(DType::f32, {4, 6});
  EXPECT_EQ(reshape_strides(dense, {3, 8}), (Strides{8, 1}));
  EXPECT_EQ(reshape_strides(dense, {2, 2, 1, 6}), (Strides{12, 6, 6, 1}));
  View transposed(DType::f32, {6, 4}, {1, 6});
  EXPECT_EQ(reshape_strides(transposed, {24}), std::nullopt);
  EXPECT_EQ(reshape_strides(transposed, {2, 3, 4}), (Strides{3, 1, 6}));
  View images(DType::f32, {2, 3, 4, 5}, channels_last({2, 3, 4, 5}));
  EXPECT_EQ(reshape_strides(images, {2, 60}), std::nullopt) << "flattening channels-last data requires a copy";
  EXPECT_TRUE(reshape_strides(images, {2, 3, 20}).has_value());
  View repeated(DType::f32, {4, 3}, {0, 1});
  EXPECT_EQ(reshape_strides(repeated, {2, 2, 3}), (Strides{0, 0, 1}));
  EXPECT_EQ(reshape_strides(repeated, {12}), std::nullopt);
}

TEST(ReshapeStrides, EmptyAndSingleElementViewsFitAnyShape) {
  EXPECT_TRUE(reshape_strides(View(DType::f32, {0, 3}, {7, 1}), {3, 0}).has_value());
  EXPECT_EQ(reshape_strides(View(DType::f32, {1, 1}, {9, 4}), {})->size(), 0u);
  EXPECT_EQ(reshape_strides(View(DType::f32, {}), {1, 1, 1})->size(), 3u);
  try {
    reshape_strides(View(DType::f32, {2, 3}), {5});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "reshape: f32[2, 3] and [5] must have the same number of elements");
  }
}

TEST(WindowView, AWindowStartsAtTheCornerOfItsBoxInTheLocalPart) {
  Box origin = {{4, 10}, {2, 7}}, box = {{6, 9}, {3, 5}};  // boxes of a logical tensor; the local part begins at (4, 2)
  View local(DType::f64, {6, 5});
  std::int64_t offset = -1;
  View window = slice_view(local, origin, box, offset);
  EXPECT_EQ(window.shape, (Shape{3, 2}));
  EXPECT_EQ(window.strides, local.strides);
  EXPECT_EQ(offset, (2 * 5 + 1) * 8);
  std::vector<std::int64_t> expected;
  for (std::int64_t i = 6; i < 9; ++i)
    for (std::int64_t j = 3; j < 5; ++j) expected.push_back((i - 4) * 5 + (j - 2));
  auto window_addresses = addresses(window.shape, window.strides);
  for (auto& a : window_addresses) a += offset / 8;
  EXPECT_EQ(window_addresses, expected);
}

TEST(WindowView, AnEmptyBoxStartsAtTheFirstByte) {
  View local_view(DType::f32, {3});
  std::int64_t offset = -1;
  View window = slice_view(local_view, {{0, 3}}, {{3, 3}}, offset);
  EXPECT_EQ(window.count(), 0);
  EXPECT_EQ(offset, 0) << "one past the end may be outside the block";
}

TEST(BroadcastView, NewDimensionsHaveStrideZeroAndOthersKeepTheirStrides) {
  View x(DType::f32, {3, 2}, {1, 3});
  View y = broadcast_view(x, {5, 3, 4, 2}, {1, 3});
  EXPECT_EQ(y.strides, (Strides{0, 1, 0, 3}));
  for_each_index(y.shape, [&](const std::vector<std::int64_t>& i) {
    EXPECT_EQ(offset_of(i, y.strides), offset_of({i[1], i[3]}, x.strides));
  });
  EXPECT_EQ(broadcast_view(View(DType::f32, {}), {2, 2}, {}).strides, (Strides{0, 0}));
}

TEST(TransposeView, DimensionIOfTheResultIsDimensionPermIOfTheInput) {
  View x(DType::f32, {2, 3, 4});
  View y = transpose_view(x, {2, 0, 1});
  EXPECT_EQ(y.shape, (Shape{4, 2, 3}));
  for_each_index(y.shape, [&](const std::vector<std::int64_t>& i) {
    EXPECT_EQ(offset_of(i, y.strides), offset_of({i[1], i[2], i[0]}, x.strides));
  });
}

}  // namespace
}  // namespace karez::ops
