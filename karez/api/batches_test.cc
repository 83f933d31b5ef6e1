// Tests of the public class Batches: each option reaches the corresponding class of the component `data`, which has
// separate tests.
#include "karez/api/batches.h"

#include <gtest/gtest.h>

namespace karez {
namespace {

LabelledImages ten_images() {
  LabelledImages rows{{10, 1, 2}, {}, {}};
  for (int i = 0; i < 10; ++i) {
    rows.labels.push_back(static_cast<std::uint8_t>(i));
    rows.images.insert(rows.images.end(), {static_cast<std::uint8_t>(i), 255});
  }
  return rows;
}

template <class T> std::vector<T> read(const Source& source, std::int64_t position) {
  HostArray out(source.type());
  const std::vector<std::int64_t> begin(static_cast<std::size_t>(source.type().rank()), 0);
  source.read(position, begin, {out.bytes(), &out.view()});
  return {out.data<T>().begin(), out.data<T>().end()};
}

TEST(Batches, WithoutTrainingTheLastBatchIsPaddedWithZeroWeights) {
  EXPECT_EQ(ten_images().rows(), 10);
  const Batches batches(ten_images(), {.batch = 4, .train = false, .mean = 0.5, .deviation = 0.25});
  EXPECT_EQ(batches.rows(), 10);
  EXPECT_EQ(batches.per_epoch(), 3);
  EXPECT_EQ(read<std::int32_t>(*batches.labels(), 1), (std::vector<std::int32_t>{4, 5, 6, 7}));
  EXPECT_EQ(read<float>(*batches.weights(), 2), (std::vector<float>{1, 1, 0, 0}));
  const auto images = read<float>(*batches.images(), 0);
  EXPECT_NEAR(images[0], -2, 1e-6);
  EXPECT_NEAR(images[1], 2, 1e-6);
}

TEST(Batches, TheTrainingOrderDependsOnTheSeed) {
  auto order = [](std::uint64_t seed) {
    const Batches batches(ten_images(), {.batch = 5, .seed = seed});
    EXPECT_EQ(batches.per_epoch(), 2);
    return read<std::int32_t>(*batches.labels(), 0);
  };
  EXPECT_EQ(order(3), order(3));
  EXPECT_NE(order(3), order(4));
}

}  // namespace
}  // namespace karez
