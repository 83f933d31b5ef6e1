// Tests of array sources: slices are read into memory of any strides, copies share no memory with the originals, and
// their memory is reused.
#include "karez/data/array_source.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "karez/base/attrs.h"
#include "karez/base/test_error.h"

namespace karez::data {
namespace {

HostArray make_counted_array(Shape shape) {
  HostArray out(TensorType{DType::f32, std::move(shape)});
  std::iota(out.data<float>().begin(), out.data<float>().end(), 1.0f);
  return out;
}

template <class T = float> std::vector<T> read(const Source& source, std::vector<std::int64_t> begin, Shape shape) {
  HostArray out(TensorType{source.type().dtype, std::move(shape)});
  source.read(9, begin, out.ref());  // the position makes no difference
  return {out.data<T>().begin(), out.data<T>().end()};
}

TEST(ArraySource, ASliceWithTheStridesOfTheArrayIsFound) {
  const HostArray array(TensorType{DType::f32, {6, 8}});
  const auto source = array_source(array);
  auto at = [&](std::vector<std::int64_t> begin, const View& view) { return source->find(0, begin, view); };
  EXPECT_EQ(at({0, 0}, View(DType::f32, {6, 8})), array.bytes());
  EXPECT_EQ(at({2, 0}, View(DType::f32, {3, 8})), array.bytes() + 2 * 8 * 4);
  EXPECT_EQ(at({5, 4}, View(DType::f32, {1, 4})), array.bytes() + (5 * 8 + 4) * 4)
      << "the stride of a single row must not matter";
  EXPECT_EQ(at({2, 4}, View(DType::f32, {3, 4})), nullptr) << "a slice with different strides must not be found";
  EXPECT_EQ(at({2, 4}, View(DType::f32, {3, 4}, {8, 1})), array.bytes() + (2 * 8 + 4) * 4);
  EXPECT_THROW(at({4, 0}, View(DType::f32, {3, 8})), base::Error);
}

TEST(ArraySource, AnySliceIsReadIntoAnyStrides) {
  HostArray array = HostArray::of<std::int32_t>({2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  auto source = array_source(array);
  EXPECT_EQ(read<std::int32_t>(*source, {0, 1, 0}, {2, 2, 1}), (std::vector<std::int32_t>{2, 4, 8, 10}));
  View transposed(DType::i32, {2, 3, 2}, {1, 2, 6});
  HostArray out(TensorType{DType::i32, {12}});
  source->read(0, Ints{0, 0, 0}, {out.bytes(), &transposed});
  const auto elements = out.data<std::int32_t>();
  EXPECT_EQ(std::vector(elements.begin(), elements.end()),
            (std::vector<std::int32_t>{0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11}));
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
  EXPECT_EQ(read(*array_source(HostArray::of<float>({}, {2.5f})), {}, {}), std::vector<float>{2.5f});
  auto source = array_source(HostArray::of<float>({3}, {1, 2, 3}));
  View empty_view(DType::f32, {0});
  source->read(0, Ints{3}, {nullptr, &empty_view});
}

TEST(ArraySource, ASliceThatDoesNotExistIsAnError) {
  EXPECT_EQ(error_of([] {
              read<std::int32_t>(*array_source(HostArray::of<std::int32_t>({2}, {1, 2})), {1}, {2});
            }),
            "a source of i32[2] has no slice i32[2] at [1]");
}

TEST(ArrayCopyPool, CopiesShareNoMemoryWithTheArray) {
  ArrayCopyPool copies;
  HostArray array = make_counted_array({2, 3});
  auto copy = copies.copy(array), shared = array_source(array);
  array.data<float>()[4] = -1;
  EXPECT_EQ(read(*copy, {1, 0}, {1, 3}), (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(read(*shared, {1, 0}, {1, 3}), (std::vector<float>{4, -1, 6}))
      << "array_source must share the bytes of the array";
  EXPECT_EQ(copy->type(), array.type());
}

TEST(ArrayCopyPool, CopiesFindASliceInTheirOwnMemory) {
  ArrayCopyPool copies;
  const HostArray array = make_counted_array({6, 8});
  const auto copy = copies.copy(array);
  const auto first = [](const std::byte* slice_address) {
    float out = 0;
    if (slice_address) std::memcpy(&out, slice_address, sizeof out);
    return out;
  };
  const std::byte* address = copy->find(0, std::vector<std::int64_t>{0, 0}, array.view());
  ASSERT_NE(address, nullptr);
  EXPECT_NE(address, array.bytes());
  EXPECT_EQ(first(address), 1);
  EXPECT_EQ(first(copy->find(0, std::vector<std::int64_t>{2, 0}, View(DType::f32, {3, 8}))), 17);
  EXPECT_EQ(copy->find(0, std::vector<std::int64_t>{2, 4}, View(DType::f32, {3, 4})), nullptr)
      << "a slice with different strides must not be found";
  EXPECT_THROW(copy->find(0, std::vector<std::int64_t>{4, 0}, View(DType::f32, {3, 8})), Error);
}

TEST(ArrayCopyPool, MemoryIsReusedAfterTheLastHandleIsDestroyed) {
  ArrayCopyPool copies;
  auto first = copies.copy(make_counted_array({100}));
  auto second = copies.copy(make_counted_array({100}));
  EXPECT_EQ(copies.allocated(), 2) << "the first block must not be reused while it is in use";
  first.reset();
  auto third = copies.copy(make_counted_array({10, 9}));
  EXPECT_EQ(copies.allocated(), 2) << "a smaller array must reuse the block";
  EXPECT_EQ(read(*third, {9, 8}, {1, 1}), (std::vector<float>{90})) << "the copy must have the type of its own array";
  EXPECT_EQ(read(*second, {99}, {1}), (std::vector<float>{100}));
  second.reset();
  auto small = copies.copy(make_counted_array({20}));
  EXPECT_EQ(copies.allocated(), 3) << "a small array must not use a large block";
  auto large = copies.copy(make_counted_array({101}));
  EXPECT_EQ(copies.allocated(), 4);
}

TEST(ArrayCopyPool, IdleMemoryIsFreed) {
  ArrayCopyPool copies;
  copies.copy(make_counted_array({100000}));
  EXPECT_EQ(copies.pooled_bytes(), 400000);
  for (int i = 0; i < 64; ++i) copies.copy(make_counted_array({4}));
  EXPECT_EQ(copies.pooled_bytes(), 400016) << "an idle block must not be freed too early";
  for (int i = 0; i < 2; ++i) copies.copy(make_counted_array({4}));
  EXPECT_EQ(copies.pooled_bytes(), 16);
  EXPECT_EQ(copies.allocated(), 2);
}

TEST(ArrayCopyPool, SourcesMayOutliveThePool) {
  std::shared_ptr<const Source> source;
  {
    ArrayCopyPool copies;
    source = copies.copy(make_counted_array({3}));
  }
  EXPECT_EQ(read(*source, {0}, {3}), (std::vector<float>{1, 2, 3}));
}

TEST(ArrayCopyPool, SeveralThreadsMayCopyConcurrently) {
  ArrayCopyPool copies;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&copies, t] {
      for (int i = 0; i < 500; ++i) {
        HostArray array = make_counted_array({10 + t});
        array.data<float>()[0] = static_cast<float>(i);
        auto copy = copies.copy(array);
        ASSERT_EQ(read(*copy, {0}, {1}), (std::vector<float>{static_cast<float>(i)}));
      }
    });
  for (auto& thread : threads) thread.join();
  // A thread that sleeps while the others make 64 copies loses its block, which happens occasionally on a busy machine.
  EXPECT_LE(copies.allocated(), 8 + 4 * 4 * 500 / 64);
}

TEST(ArrayCopyPool, ScalarsAndEmptyArraysAreCopiedToo) {
  ArrayCopyPool copies;
  EXPECT_EQ(read(*copies.copy(HostArray::of<float>({}, {2.5f})), {}, {}), (std::vector<float>{2.5f}));
  EXPECT_EQ(read(*copies.copy(HostArray(TensorType{DType::f32, {0, 3}})), {0, 0}, {0, 3}), std::vector<float>{});
  EXPECT_THROW(copies.copy(HostArray()), Error);
  EXPECT_THROW(array_source(HostArray()), Error);
}

}  // namespace
}  // namespace karez::data
