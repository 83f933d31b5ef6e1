// Tests of stacked elements: values, padding, weights and structures, and the errors of elements that do not match.
#include "karez/data/stages/row_stack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "karez/base/error.h"
#include "karez/base/philox.h"

namespace karez::data {
namespace {

using Elements = std::vector<Element>;

HostArray i64(Shape shape, const std::vector<std::int64_t>& values) {
  return HostArray::of<std::int64_t>(std::move(shape), values);
}
// An array of any dtype with the bytes first, first + 1, ...
HostArray with_bytes(const TensorType& type, int first) {
  HostArray out(type);
  for (std::int64_t i = 0; i < type.bytes(); ++i) out.bytes()[i] = static_cast<std::byte>(first + i);
  return out;
}
std::vector<std::byte> bytes_of(const HostArray& array) {
  return {array.bytes(), array.bytes() + array.type().bytes()};
}
template <class T> std::vector<T> list(const Element& element, std::size_t field = 0) {
  const auto data = array_of(element, field).data<T>();
  return {data.begin(), data.end()};
}

Element object_element(int value) {
  Element out;
  out.fields.emplace_back(Object(std::make_shared<const int>(value)));
  out.structure = leaf_structure();
  return out;
}
StructureRef nested(Structure::Kind kind, std::vector<StructureRef> children, std::vector<std::string> keys = {}) {
  return std::make_shared<const Structure>(Structure{kind, std::move(keys), std::move(children)});
}
Element with_structure(Element element, StructureRef structure) {
  element.structure = std::move(structure);
  return element;
}

Element stacked(const Elements& elements, StackOptions options = {}) {
  if (options.rows == 0) options.rows = static_cast<std::int64_t>(elements.size());
  ArrayPool pool;
  return stack(elements, options, pool, "batch");
}
Element padded(const Elements& elements, std::vector<Shape> shapes = {}) {
  return stacked(elements, {.padded = true, .shapes = std::move(shapes)});
}

// The kind and text of the error of a stack.
std::string stack_error(const Elements& elements, const StackOptions& options = {}) {
  try {
    stacked(elements, options);
  } catch (const Error& error) { return cat(name_of(error.kind), ": ", error.what()); }
  return "no error";
}
std::string padded_error(const Elements& elements, std::vector<Shape> shapes = {}) {
  return stack_error(elements, {.padded = true, .shapes = std::move(shapes)});
}

TEST(RowOf, ARowHasTheBytesOfTheArray) {
  for (DType dtype : all_dtypes) {
    const HostArray array = with_bytes({dtype, {4, 2, 3}}, 7);
    for (std::int64_t i = 0; i < 4; ++i) {
      const HostArray row = Rows(array)[i];
      EXPECT_EQ(row.type(), (TensorType{dtype, {2, 3}}));
      EXPECT_EQ(row.bytes(), array.bytes() + i * 6 * size_of(dtype));
    }
  }
}

TEST(RowOf, ARowKeepsTheBytesAlive) {
  std::vector<HostArray> rows;
  {
    const HostArray array = i64({3}, {5, 6, 7});
    for (std::int64_t i = 0; i < 3; ++i) rows.push_back(Rows(array)[i]);
    EXPECT_FALSE(array.unique());
  }
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(rows[i].shape(), Shape{});
    EXPECT_EQ(rows[i].data<std::int64_t>()[0], 5 + static_cast<std::int64_t>(i));
  }
}

TEST(RowOf, TheRowsOfAnEmptyArrayAreEmpty) {
  const HostArray row = Rows(HostArray(TensorType{DType::f32, {2, 0, 3}}))[1];
  EXPECT_TRUE(row.valid());
  EXPECT_EQ(row.type(), (TensorType{DType::f32, {0, 3}}));
}

TEST(RowStack, ABatchHasTheBytesOfItsRows) {
  for (DType dtype : all_dtypes)
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{5}, Shape{2, 1, 3}}) {
      Elements elements;
      std::vector<std::byte> expected;
      for (int i = 0; i < 3; ++i) {
        const HostArray array = with_bytes({dtype, shape}, 50 * i);
        elements.push_back(element(array));
        for (std::byte byte : bytes_of(array)) expected.push_back(byte);
      }
      Shape batch_shape = shape;
      batch_shape.insert(batch_shape.begin(), 3);
      for (bool is_padded : {false, true}) {
        const HostArray batch = array_of(stacked(elements, {.padded = is_padded}));
        EXPECT_EQ(batch.type(), (TensorType{dtype, batch_shape}));
        EXPECT_EQ(bytes_of(batch), expected);
      }
    }
}

TEST(RowStack, TheRowsOfABatchAreTheElements) {
  const Elements elements = {element(i64({2}, {1, 2})), element(i64({2}, {3, 4}))};
  const Element batch = stacked(elements);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(bytes_of(Rows(array_of(batch))[static_cast<std::int64_t>(i)]), bytes_of(array_of(elements[i])));
}

TEST(RowStack, ABatchBelongsToTheFirstRecordAndContinuesAfterTheLast) {
  Elements elements = {element(i64({}, {1})), element(i64({}, {2})), element(i64({}, {3}))};
  for (std::size_t i = 0; i < 3; ++i) {
    elements[i].epoch = 4 + static_cast<std::int64_t>(i), elements[i].index = 7 + static_cast<std::int64_t>(i);
    elements[i].state = stream_state({static_cast<std::int64_t>(i)});
  }
  const Element batch = stacked(elements);
  EXPECT_EQ(batch.epoch, 4);
  EXPECT_EQ(batch.index, 7);
  EXPECT_EQ(batch.state, elements[2].state);
  EXPECT_EQ(batch.structure, elements[0].structure);
}

TEST(RowStack, ArraysWithoutElementsAreStacked) {
  const Element empty = element(HostArray(TensorType{DType::f32, {0, 3}}));
  EXPECT_EQ(array_of(stacked({empty, empty})).shape(), (Shape{2, 0, 3}));
  EXPECT_EQ(array_of(padded({empty, empty})).shape(), (Shape{2, 0, 3}));
  const Element row = element(HostArray::of<float>({1, 3}, {1, 2, 3}));
  EXPECT_EQ(list<float>(padded({empty, row, empty})), (std::vector<float>{0, 0, 0, 1, 2, 3, 0, 0, 0}));
}

TEST(RowStack, RowsWithoutAnElementAreZeros) {
  const Elements elements = {element(i64({2}, {1, 2})), element(i64({2}, {3, 4}))};
  const Element batch = stacked(elements, {.rows = 4});
  EXPECT_EQ(array_of(batch).shape(), (Shape{4, 2}));
  EXPECT_EQ(list<std::int64_t>(batch), (std::vector<std::int64_t>{1, 2, 3, 4, 0, 0, 0, 0}));
}

TEST(RowStack, PaddingFillsTheEndsOfAllDimensions) {
  const Element batch = padded({element(i64({1, 2}, {1, 2})), element(i64({2, 1}, {3, 4}))});
  EXPECT_EQ(array_of(batch).shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(list<std::int64_t>(batch), (std::vector<std::int64_t>{1, 2, 0, 0, 3, 0, 4, 0}));
}

TEST(RowStack, PaddedArraysOfRandomSizesAreInTheCornersOfTheirRows) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::uint64_t draws = 0;
    const auto draw = [&](std::int64_t limit) {
      return static_cast<std::int64_t>(philox_word(seed, 0, draws++)) % limit;
    };
    const std::size_t rank = static_cast<std::size_t>(1 + draw(4));
    Elements elements;
    for (std::int64_t n = 1 + draw(4); n > 0; --n) {
      Shape shape(rank);
      for (std::int64_t& size : shape) size = draw(4);
      HostArray array(TensorType{DType::i64, shape});
      std::iota(array.data<std::int64_t>().begin(), array.data<std::int64_t>().end(), 1 + 1000 * n);
      elements.push_back(element(array));
    }
    Shape shape(rank);  // as given: the largest size, or one more
    std::vector<Shape> given = {shape};
    for (std::size_t d = 0; d < rank; ++d) {
      for (const Element& e : elements) shape[d] = std::max(shape[d], array_of(e).shape()[d]);
      given[0][d] = draw(2) == 0 ? -1 : (shape[d] += draw(2));
    }
    const HostArray batch = array_of(padded(elements, given));
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const HostArray row = Rows(batch)[static_cast<std::int64_t>(i)], array = array_of(elements[i]);
      ASSERT_EQ(row.shape(), shape) << "seed " << seed;
      for_each_index(shape, [&](const std::vector<std::int64_t>& index) {
        bool inside = true;
        for (std::size_t d = 0; d < rank; ++d) inside = inside && index[d] < array.shape()[d];
        const auto at = [&](const HostArray& from) {
          return from.data<std::int64_t>()[static_cast<std::size_t>(offset_of(index, from.view().strides))];
        };
        ASSERT_EQ(at(row), inside ? at(array) : 0) << "seed " << seed;
      });
    }
  }
}

TEST(RowStack, ReusedMemoryHasNoTraceOfAnEarlierBatch) {
  ArrayPool pool;
  const auto numbers = [&](const Elements& elements, bool is_padded) {
    return list<std::int64_t>(stack(elements, {.rows = 3, .padded = is_padded}, pool, "batch"));
  };
  const Element nines = element(i64({2}, {9, 9})), one = element(i64({1}, {1})), two = element(i64({2}, {1, 2}));
  EXPECT_EQ(numbers({nines, nines, nines}, false), (std::vector<std::int64_t>{9, 9, 9, 9, 9, 9}));
  EXPECT_EQ(numbers({two, two}, false), (std::vector<std::int64_t>{1, 2, 1, 2, 0, 0}));
  EXPECT_EQ(numbers({nines, nines, nines}, false), (std::vector<std::int64_t>{9, 9, 9, 9, 9, 9}));
  EXPECT_EQ(numbers({one, two, one}, true), (std::vector<std::int64_t>{1, 0, 1, 2, 1, 0}));
  EXPECT_EQ(pool.allocated(), 1) << "all batches must have used the same memory";
}

TEST(ArrayPool, OnlyTheGivenNumberOfIdleBlocksIsKept) {
  ArrayPool pool(2);
  const auto allocate = [&](int count) {
    std::vector<HostArray> arrays;
    for (int i = 0; i < count; ++i) arrays.push_back(pool.allocate({DType::f32, {3}}));
  };
  allocate(3);
  EXPECT_EQ(pool.allocated(), 3);
  allocate(2);
  EXPECT_EQ(pool.allocated(), 3);
  allocate(3);
  EXPECT_EQ(pool.allocated(), 4);
}

TEST(ArrayPool, BlocksThatAreNoLongerNeededAreFreed) {
  ArrayPool pool;
  const auto allocate = [&](int count) {
    std::vector<HostArray> arrays;
    for (int i = 0; i < count; ++i) arrays.push_back(pool.allocate({DType::f32, {3}}));
  };
  allocate(5);
  for (int i = 0; i < 100; ++i) allocate(2);
  EXPECT_EQ(pool.allocated(), 5) << "two of the idle blocks are used again";
  allocate(5);
  EXPECT_EQ(pool.allocated(), 8) << "the three other blocks were freed";
  for (int i = 0; i < 10; ++i) allocate(5);
  EXPECT_EQ(pool.allocated(), 8) << "all blocks were needed in the last allocations";
}

TEST(RowStack, GivenShapesApplyToTheirFields) {
  const Element pair = element({i64({2}, {1, 2}), i64({1}, {3})});
  const Element batch = padded({pair, pair}, {{3}, {-1}});
  EXPECT_EQ(list<std::int64_t>(batch, 0), (std::vector<std::int64_t>{1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(list<std::int64_t>(batch, 1), (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(array_of(padded({pair}, {{4}}), 1).shape(), (Shape{1, 1})) << "no shape is given for field 1";
}

TEST(RowStack, AGivenShapeThatDoesNotFitIsAnError) {
  const Elements rows = {element(i64({1, 3}, {1, 2, 3})), element(i64({2, 1}, {4, 5}))};
  EXPECT_EQ(padded_error(rows, {{2, 3}}), "no error");
  EXPECT_EQ(padded_error(rows, {{1, -1}}),
            "shape: batch: a row of field 0 has size 2 in dimension 0, more than the given size 1");
  EXPECT_EQ(padded_error(rows, {{-1, 2}}),
            "shape: batch: a row of field 0 has size 3 in dimension 1, more than the given size 2");
  EXPECT_EQ(padded_error(rows, {{-1}}), "shape: batch: the shape for field 0 has 1 dimensions, but the rows have 2");
}

TEST(RowStack, WeightsMarkTheRowsOfTheData) {
  const Elements elements = {element(i64({}, {5})), element(i64({}, {6}))};
  const Element batch = stacked(elements, {.rows = 3, .weights = true});
  ASSERT_EQ(batch.fields.size(), 2u);
  EXPECT_EQ(list<std::int64_t>(batch), (std::vector<std::int64_t>{5, 6, 0}));
  EXPECT_EQ(list<float>(batch, 1), (std::vector<float>{1, 1, 0}));
}

TEST(RowStack, WeightsAreTheLastItemOfATupleOrListAndTheSecondOfAPairOtherwise) {
  using Kind = Structure::Kind;
  const StructureRef leaf = leaf_structure();
  const auto structure = [](const Element& element) {
    const Element batch = stacked({element, element}, {.rows = 2, .weights = true});
    EXPECT_EQ(leaves(*batch.structure), static_cast<std::int64_t>(batch.fields.size()));
    EXPECT_EQ(list<float>(batch, batch.fields.size() - 1), (std::vector<float>{1, 1}));
    return print(*batch.structure);
  };
  const Element one = element(i64({}, {1})), pair = element({i64({}, {1}), i64({}, {2})});
  EXPECT_EQ(structure(one), "(*, *)");
  EXPECT_EQ(structure(pair), "(*, *, *)");
  EXPECT_EQ(structure(with_structure(one, tuple_structure({leaf}))), "(*, *)");
  EXPECT_EQ(structure(with_structure(pair, nested(Kind::list, {leaf, leaf}))), "[*, *, *]");
  EXPECT_EQ(structure(with_structure(pair, nested(Kind::dict, {leaf, leaf}, {"x", "y"}))), R"(({"x": *, "y": *}, *))");
  EXPECT_EQ(structure(with_structure(pair, tuple_structure({tuple_structure({leaf, leaf})}))), "((*, *), *)");
  EXPECT_EQ(print(*pair.structure), "(*, *)") << "the structure of the element must not change";
}

TEST(RowStack, ABatchOfObjectsIsAList) {
  const Elements elements = {object_element(1), object_element(2)};
  for (bool is_padded : {false, true}) {
    const Element batch = stacked(elements, {.padded = is_padded});
    const auto* objects = std::get_if<std::vector<Object>>(&batch.fields.at(0));
    ASSERT_NE(objects, nullptr);
    ASSERT_EQ(objects->size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ((*objects)[i], std::get<Object>(elements[i].fields[0]));
  }
}

TEST(RowStack, ArraysThatDoNotMatchAreErrors) {
  const Element two = element(i64({2}, {1, 2})), three = element(i64({3}, {1, 2, 3})),
                matrix = element(i64({1, 2}, {1, 2})), f32 = element(HostArray::of<float>({2}, {1, 2}));
  EXPECT_EQ(stack_error({two, two, three}),
            "shape: batch: field 0 must have the same shape in all rows of a batch, got i64[2] and i64[3]; "
            "padded_batch pads them to the largest shape");
  EXPECT_EQ(padded_error({two, two, three}), "no error");
  const std::string same_rank =
      "shape: batch: field 0 must have the same number of dimensions in all rows of a batch, got ";
  EXPECT_EQ(padded_error({two, matrix}), same_rank + "i64[2] and i64[1, 2]");
  EXPECT_EQ(padded_error({matrix, two}), same_rank + "i64[1, 2] and i64[2]");
  const std::string same_dtype = "type: batch: field 0 must have the same dtype in all rows of a batch, got ";
  EXPECT_EQ(stack_error({two, f32}), same_dtype + "i64[2] and f32[2]");
  EXPECT_EQ(padded_error({two, f32}), same_dtype + "i64[2] and f32[2]");
  EXPECT_EQ(stack_error({two, object_element(1)}), same_dtype + "i64[2] and an object");
  EXPECT_EQ(stack_error({object_element(1), two}),
            "type: batch: field 0 must be an array in all rows of a batch, or in none");
  const Element pair = element({i64({1}, {1}), i64({1}, {2})}), other = element({i64({1}, {1}), i64({}, {2})});
  EXPECT_EQ(stack_error({pair, other}),
            "shape: batch: field 1 must have the same shape in all rows of a batch, got i64[1] and i64[]; padded_batch "
            "pads them to the largest shape");
}

TEST(RowStack, StructuresThatDoNotMatchAreErrors) {
  using Kind = Structure::Kind;
  const StructureRef leaf = leaf_structure();
  const HostArray number = i64({}, {1});
  const Element one = element(number), pair = element({number, number});
  const std::string same_structure = "data: batch: all rows of a batch must have the same structure, got ";
  EXPECT_EQ(stack_error({one, pair}), same_structure + "* and (*, *)");
  EXPECT_EQ(stack_error({pair, pair, with_structure(pair, nested(Kind::list, {leaf, leaf}))}),
            same_structure + "(*, *) and [*, *]");
  const auto dict = [&](std::vector<std::string> keys) {
    return with_structure(pair, nested(Kind::dict, {leaf, leaf}, std::move(keys)));
  };
  EXPECT_EQ(stack_error({dict({"x", "y"}), dict({"x", "y"})}), "no error") << "two structures that are equal";
  EXPECT_EQ(stack_error({dict({"x", "y"}), dict({"x", "z"})}),
            same_structure + R"({"x": *, "y": *} and {"x": *, "z": *})");
}

}  // namespace
}  // namespace karez::data
