// Tests of data sets that read a source.
#include <gtest/gtest.h>

#include "karez/base/test_error.h"
#include "karez/data/array_source.h"
#include "karez/data/dataset.h"
#include "karez/data/source.h"
#include "karez/data/stages/test_random_datasets.h"

namespace karez::data {
namespace {

// The array at position p is f32[2, 3] of the numbers 10 p, 10 p + 1, ...
struct NumberedSource : Source {
  TensorType type() const override { return {DType::f32, {2, 3}}; }
  void read(std::int64_t position, std::span<const std::int64_t> begin, const TensorRef& out) const override {
    require(ErrorKind::data, position != 3, "record 3 is damaged");
    require(begin.size() == 2 && begin[0] == 0 && begin[1] == 0, "a slice that is not complete");
    for (std::int64_t i = 0; i < out.count(); ++i) out.as<float>()[i] = static_cast<float>(10 * position + i);
  }
};

TEST(FromSource, TheElementsAreTheArraysOfTheSource) {
  const Dataset dataset = from_source(std::make_shared<NumberedSource>(), 3);
  EXPECT_EQ(dataset.size(), 3);
  EXPECT_EQ(dataset.text(), "from_source(3 of f32[2, 3])\n");
  for (std::int64_t i = 0; i < 3; ++i) {
    const Element element = dataset.at(i, 2);
    EXPECT_EQ(element.epoch, 2);
    EXPECT_EQ(element.index, i);
    for (std::int64_t k = 0; k < 6; ++k)
      EXPECT_EQ(array_of(element).data<float>()[static_cast<std::size_t>(k)], static_cast<float>(10 * i + k));
  }
  EXPECT_EQ(array_of(dataset.batch(2).at(1)).shape(), (Shape{1, 2, 3}));
}

TEST(FromSource, AnErrorOfTheSourceIsThatOfTheElement) {
  const Dataset dataset = from_source(std::make_shared<NumberedSource>(), 5);
  EXPECT_EQ(base::error_of([&] { dataset.at(3); }), "record 3 is damaged");
  EXPECT_EQ(array_of(dataset.at(4)).data<float>()[0], 40);
}

TEST(FromSource, AnArrayThatTheSourceKeepsIsNotCopied) {
  const HostArray array = HostArray::of<std::int64_t>({2}, {5, 6});
  Element element;
  {
    const Dataset dataset = from_source(array_source(array), 2);
    element = dataset.at(1);
  }
  EXPECT_EQ(array_of(element).bytes(), array.bytes());
  EXPECT_EQ(array_of(element).data<std::int64_t>()[1], 6);
}

TEST(FromSource, InvalidArgumentsAreErrors) {
  EXPECT_EQ(base::error_of([] { from_source(nullptr, 1); }), "from_source: the source must not be null");
  EXPECT_EQ(base::error_of([] { from_source(std::make_shared<NumberedSource>(), -1); }),
            "from_source: the number of elements must be at least 0, got -1");
  EXPECT_EQ(from_source(std::make_shared<NumberedSource>(), 0).size(), 0);
}

}  // namespace
}  // namespace karez::data
