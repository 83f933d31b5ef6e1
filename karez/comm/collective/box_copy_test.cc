// Tests of copies between boxes of strided tensors, which are compared with a loop over indices.
#include "karez/comm/collective/box_copy.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace karez::comm {
namespace {

// Returns the strides of a dense tensor whose dimensions are stored in this order, the last one innermost.
Strides dense_strides(const Shape& shape, const std::vector<int>& order) {
  Strides out(shape.size());
  std::int64_t step = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    out[static_cast<std::size_t>(*d)] = step;
    step *= shape[static_cast<std::size_t>(*d)];
  }
  return out;
}

struct BoxView {
  View view;
  TensorBox box;
};

// Returns a view with random margins before and after the box, in a random order of dimensions.
BoxView random_box_view(const Shape& box, DType dtype, std::mt19937& random) {
  BoxView out;
  out.box.size = box;
  Shape shape;
  for (std::int64_t size : box) {
    out.box.begin.push_back(static_cast<std::int64_t>(random() % 3));
    shape.push_back(out.box.begin.back() + size + static_cast<std::int64_t>(random() % 2));
  }
  std::vector<int> order(box.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  out.view = View(dtype, shape, dense_strides(shape, order));
  return out;
}

template <class T> void expect_copied(const BoxView& from, const BoxView& to, DType dtype) {
  std::vector<T> source(static_cast<std::size_t>(tensor::count_of(from.view.shape))),
      copied(static_cast<std::size_t>(tensor::count_of(to.view.shape)), T(99));
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<T>(i % 91);
  std::vector<T> expected = copied;
  const Shape& box = from.box.size;
  for (std::int64_t n = 0; n < tensor::count_of(box); ++n) {
    std::int64_t remaining = n, from_offset = 0, to_offset = 0;
    for (std::size_t d = box.size(); d-- > 0; remaining /= box[d]) {
      from_offset += (from.box.begin[d] + remaining % box[d]) * from.view.strides[d];
      to_offset += (to.box.begin[d] + remaining % box[d]) * to.view.strides[d];
    }
    expected[static_cast<std::size_t>(to_offset)] = source[static_cast<std::size_t>(from_offset)];
  }
  BoxCopy(from.view, from.box, to.view, to.box)
      .run(reinterpret_cast<const std::byte*>(source.data()), reinterpret_cast<std::byte*>(copied.data()));
  ASSERT_EQ(copied, expected) << print(from.view.type()) << " of " << size_of(dtype) << " bytes";
}

TEST(TensorBox, ABoxWithoutSizesIsEmptyUnlessItsTensorIsAScalar) {
  const View matrix(DType::f32, {2, 3}, {5, 1}), scalar(DType::f32, {});
  EXPECT_EQ(count_of(matrix, {}), 0);
  EXPECT_EQ(count_of(matrix, {{1, 1}, {1, 2}}), 2);
  EXPECT_EQ(count_of(matrix, {{1, 1}, {1, 0}}), 0);
  EXPECT_EQ(count_of(matrix, whole_box(matrix)), 6);
  EXPECT_EQ(count_of(scalar, {}), 1);
  EXPECT_EQ(count_of(scalar, whole_box(scalar)), 1);
  EXPECT_EQ(offset_bytes(matrix, {{1, 1}, {1, 2}}), (5 + 1) * 4);
  EXPECT_EQ(offset_bytes(matrix, {{1, 1}, {1, 0}}), 0) << "the box is empty";
  EXPECT_TRUE(is_contiguous(matrix, {}));
  EXPECT_TRUE(is_contiguous(matrix, {{1, 0}, {1, 3}}));
  EXPECT_FALSE(is_contiguous(matrix, whole_box(matrix)));
}

TEST(BoxCopy, ACopyMovesEveryElementOfABoxAndNoOtherElement) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 3000; ++trial) {
    Shape box;
    for (std::size_t rank = random() % 6, d = 0; d < rank; ++d)
      box.push_back(static_cast<std::int64_t>(random() % 4 + (random() % 8 != 0)));
    for (const DType dtype : {DType::f32, DType::i64, DType::b8}) {
      const BoxView from = random_box_view(box, dtype, random), to = random_box_view(box, dtype, random);
      switch (size_of(dtype)) {
        case 4: expect_copied<std::int32_t>(from, to, dtype); break;
        case 8: expect_copied<std::int64_t>(from, to, dtype); break;
        default: expect_copied<std::uint8_t>(from, to, dtype);
      }
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace karez::comm
