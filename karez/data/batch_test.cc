// Tests of batches: the rows at a position, the values of slices and padding, and reads by several threads at once.
#include "karez/data/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "karez/base/attrs.h"
#include "karez/base/error.h"
#include "karez/base/test_error.h"
#include "karez/data/array_source.h"
#include "karez/data/shuffle.h"
#include "karez/device/host_array.h"

namespace karez::data {
namespace {

// Row r has label r and pixels r, r + 1, ...
LabelledImages rows(std::int64_t count, std::int64_t height = 2, std::int64_t width = 3) {
  LabelledImages out{{count, height, width}, {}, {}};
  for (std::int64_t r = 0; r < count; ++r) {
    out.labels.push_back(static_cast<std::uint8_t>(r));
    for (std::int64_t i = 0; i < height * width; ++i) out.images.push_back(static_cast<std::uint8_t>(r + i));
  }
  return out;
}

HostArray read(const Source& source, std::int64_t position, Ints begin = {}, Shape shape = {}) {
  TensorType type = source.type();
  if (!shape.empty()) type.shape = shape;
  begin.resize(type.shape.size());
  HostArray out(type);
  source.read(position, begin, out.ref());
  return out;
}

template <class T> std::vector<T> list(const HostArray& array) {
  auto data = array.data<T>();
  return {data.begin(), data.end()};
}

TEST(Batches, AnEpochVisitsEveryRowOnceExceptThoseOfTheLastPartialBatch) {
  Batches batches(rows(11), {.batch = 3, .seed = 5});
  ASSERT_EQ(batches.per_epoch(), 3);
  std::vector<std::int32_t> order(11);
  for (std::int64_t epoch : {0, 1, 4}) {
    shuffle(order, 5, epoch);
    for (std::int64_t i = 0; i < 3; ++i)
      EXPECT_THAT(list<std::int32_t>(read(*batches.labels(), epoch * 3 + i)),
                  ::testing::ElementsAre(order[3 * i], order[3 * i + 1], order[3 * i + 2]));
  }
}

TEST(Batches, ImagesAndLabelsOfAPositionBelongToTheSameRows) {
  Batches batches(rows(20), {.batch = 4, .mean = 0.5f, .deviation = 2});
  for (std::int64_t position : {0, 7, 3, 12}) {
    auto labels = list<std::int32_t>(read(*batches.labels(), position));
    auto images = list<float>(read(*batches.images(), position));
    for (std::size_t i = 0; i < 4; ++i)
      for (std::size_t p = 0; p < 6; ++p)
        EXPECT_FLOAT_EQ(images[i * 6 + p],
                        (static_cast<float>(labels[i] + static_cast<int>(p)) / 255.0f - 0.5f) / 2.0f);
  }
}

TEST(Batches, ADevicesSliceIsItsPartOfTheWholeBatch) {
  Batches batches(rows(20), {.batch = 5});
  auto whole_batch = list<float>(read(*batches.images(), 2));
  auto tail = list<float>(read(*batches.images(), 2, {3, 0, 0, 0}, {2, 1, 2, 3}));
  EXPECT_EQ(tail, std::vector<float>(whole_batch.begin() + 18, whole_batch.end()));
  auto column = list<float>(read(*batches.images(), 2, {1, 0, 1, 2}, {1, 1, 1, 1}));
  EXPECT_EQ(column, std::vector<float>{whole_batch[6 + 5]});
}

TEST(Batches, ReadsUseTheStridesOfTheTarget) {
  Batches batches(rows(4), {.batch = 2, .train = false});
  View spread(DType::f32, {2, 1, 2, 3}, {12, 12, 6, 2});
  std::vector<float> memory(24, -1);
  batches.images()->read(0, Ints{0, 0, 0, 0}, {reinterpret_cast<std::byte*>(memory.data()), &spread});
  EXPECT_EQ(memory[2 * 4], 4 / 255.0f);
  EXPECT_EQ(memory[12 + 2], 2 / 255.0f);
  EXPECT_EQ(memory[1], -1);
}

TEST(Batches, EvaluationGoesInOrderAndPadsWithWeightZero) {
  Batches batches(rows(5), {.batch = 3, .train = false});
  ASSERT_EQ(batches.per_epoch(), 2);
  EXPECT_THAT(list<std::int32_t>(read(*batches.labels(), 0)), ::testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(list<std::int32_t>(read(*batches.labels(), 1)), ::testing::ElementsAre(3, 4, 0));
  EXPECT_THAT(list<float>(read(*batches.weights(), 0)), ::testing::ElementsAre(1, 1, 1));
  EXPECT_THAT(list<float>(read(*batches.weights(), 1)), ::testing::ElementsAre(1, 1, 0));
  EXPECT_EQ(list<float>(read(*batches.images(), 1))[12], 0.0f);
}

TEST(Batches, ManyThreadsOnManyEpochsReadTheSameAsOneThread) {
  Batches batches(rows(200), {.batch = 10, .seed = 3});
  std::vector<std::vector<std::int32_t>> expected;
  {
    Batches single_reader(rows(200), {.batch = 10, .seed = 3});
    for (std::int64_t p = 0; p < 100; ++p) expected.push_back(list<std::int32_t>(read(*single_reader.labels(), p)));
  }
  std::atomic<int> mismatches = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::int64_t i = 0; i < 300; ++i) {
        std::int64_t p = (i * 37 + t * 53) % 100;
        if (list<std::int32_t>(read(*batches.labels(), p)) != expected[static_cast<std::size_t>(p)]) ++mismatches;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(mismatches, 0);
}

TEST(Batches, BadOptionsAndSlicesAreErrorsWithTheValues) {
  EXPECT_EQ(error_of([] { Batches(rows(4), {.batch = 0}); }), "a batch must have at least 1 row, got 0");
  EXPECT_EQ(error_of([] { Batches(rows(4), {.batch = 5}); }),
            "a batch must have at most 4 rows, the size of the data set; got 5");
  EXPECT_EQ(error_of([] { Batches(rows(4), {.batch = 2, .deviation = 0}); }),
            "the deviation of images must be finite and positive, got 0.0");
  Batches batches(rows(4), {.batch = 2});
  EXPECT_EQ(error_of([&] { read(*batches.labels(), -1); }), "the position of a batch must be at least 0, got -1");
  EXPECT_EQ(error_of([&] { read(*batches.labels(), 0, {1}, {2}); }), "a source of i32[2] has no slice i32[2] at [1]");
}

TEST(ArraySource, AnySliceIsReadIntoAnyStrides) {
  HostArray array = HostArray::of<std::int32_t>({2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  auto source = array_source(array);
  EXPECT_THAT(list<std::int32_t>(read(*source, 9, {0, 1, 0}, {2, 2, 1})), ::testing::ElementsAre(2, 4, 8, 10));
  View transposed(DType::i32, {2, 3, 2}, {1, 2, 6});
  HostArray out(TensorType{DType::i32, {12}});
  source->read(0, Ints{0, 0, 0}, {out.bytes(), &transposed});
  EXPECT_THAT(list<std::int32_t>(out), ::testing::ElementsAre(0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11));
}

// Reads every slice of an array into memory that is contiguous or has gaps after rows, matrices or both, so that runs
// have all possible lengths.
TEST(ArraySource, EverySliceIsReadIntoMemoryWithGaps) {
  const Shape shape_of_array{2, 3, 2, 2};
  HostArray array(TensorType{DType::i32, shape_of_array});
  std::iota(array.data<std::int32_t>().begin(), array.data<std::int32_t>().end(), 0);
  auto source = array_source(array);
  for_each_index(
      Shape{2, 3, 2, 2, 2, 3, 2, 2, 4}, [&](const Ints& at) {  // begins, sizes minus one, and the kind of gaps
        const Ints begin(at.begin(), at.begin() + 4);
        Shape size(at.begin() + 4, at.begin() + 8);
        for (std::size_t d = 0; d < 4; ++d)
          if (begin[d] + ++size[d] > shape_of_array[d]) return;
        Strides strides(4, 1);
        for (std::size_t d = 3; d-- > 0;)
          strides[d] = strides[d + 1] * size[d + 1] + ((d == 2 && at[8] % 2 == 1) || (d == 1 && at[8] >= 2) ? 1 : 0);
        const View view(DType::i32, size, strides);
        std::vector<std::int32_t> result(static_cast<std::size_t>(view.extent()), -1), expected_elements = result;
        for_each_index(size, [&](const Ints& i) {
          expected_elements[static_cast<std::size_t>(offset_of(i, strides))] = static_cast<std::int32_t>(
              (((begin[0] + i[0]) * 3 + begin[1] + i[1]) * 2 + begin[2] + i[2]) * 2 + begin[3] + i[3]);
        });
        source->read(0, begin, {reinterpret_cast<std::byte*>(result.data()), &view});
        ASSERT_EQ(result, expected_elements) << print(view) << " at " << cat(begin);
      });
}

TEST(ArraySource, ScalarsAndEmptySlicesAreRead) {
  EXPECT_THAT(list<float>(read(*array_source(HostArray::of<float>({}, {2.5f})), 0)), ::testing::ElementsAre(2.5f));
  auto source = array_source(HostArray::of<float>({3}, {1, 2, 3}));
  View empty_view(DType::f32, {0});
  source->read(0, Ints{3}, {nullptr, &empty_view});
}

}  // namespace
}  // namespace karez::data
