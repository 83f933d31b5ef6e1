// Tests of files of elements: round trips of every kind of element, and errors for truncated and damaged files.
#include "karez/data/stages/element_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <span>
#include <thread>

#include "karez/base/test_error.h"
#include "karez/base/xxhash.h"
#include "karez/data/stages/element_record.h"
#include "karez/data/temporary_file.h"
#include "karez/data/test_folder.h"

namespace karez::data {
namespace {

using ::testing::HasSubstr;
using Kind = Structure::Kind;

// Objects are strings.
ObjectCodec strings() {
  return {[](const Object& object) { return *static_cast<const std::string*>(object.get()); },
          [](std::string_view bytes) -> Object { return std::make_shared<const std::string>(bytes); }};
}
Object object(std::string text) { return std::make_shared<const std::string>(std::move(text)); }
const std::string& text_of(const Object& object) { return *static_cast<const std::string*>(object.get()); }

StructureRef structure(Kind kind, std::vector<StructureRef> children, std::vector<std::string> keys = {}) {
  return std::make_shared<const Structure>(Structure{kind, std::move(keys), std::move(children)});
}

Element element_with(std::vector<Field> fields, StructureRef structure) {
  Element out;
  out.fields = std::move(fields);
  out.structure = std::move(structure);
  return out;
}

// An array whose bytes count up, or alternate between 0 and 1 for bools.
HostArray counting(DType dtype, Shape shape) {
  HostArray out(TensorType{dtype, std::move(shape)});
  const std::int64_t bytes = out.type().bytes();
  for (std::int64_t i = 0; i < bytes; ++i)
    out.bytes()[i] = static_cast<std::byte>(dtype == DType::b8 ? i % 2 : 7 * i + 1);
  return out;
}

std::vector<Element> every_kind() {
  std::vector<Element> out;
  for (DType dtype : all_dtypes)
    for (const Shape& shape : {Shape{}, {1}, {0}, {3, 0, 2}, {2, 3}, {1, 1, 1, 1, 5}, {100}}) {
      out.push_back(element(counting(dtype, shape)));
      out.back().index = static_cast<std::int64_t>(out.size()) * 1'000'000'007, out.back().epoch = 3;
    }
  const StructureRef leaf = leaf_structure();
  out.push_back(element(std::vector<HostArray>{}));  // an empty tuple
  out.push_back(element_with({object("")}, leaf));
  out.push_back(
      element_with({object(std::string("a\0b", 3)), counting(DType::f32, {2})}, tuple_structure({leaf, leaf})));
  out.push_back(element_with({std::vector<Object>{object("x"), object(""), object("yz")}}, leaf));
  out.push_back(element_with({std::vector<Object>{}}, leaf));
  out.push_back(
      element_with({counting(DType::i64, {}), object("o"), counting(DType::b8, {3}), counting(DType::f16, {0})},
                   structure(Kind::dict,
                             {structure(Kind::list, {leaf, structure(Kind::tuple, {leaf})}), structure(Kind::list, {}),
                              structure(Kind::dict, {leaf, leaf}, {"", "k\"\n"})},
                             {"a", std::string("\0", 1), "ü"})));
  out.push_back(skipped_element());
  out.back().index = 7;
  StructureRef deep = leaf;
  for (int i = 0; i < 1000; ++i) deep = structure(Kind::list, {deep});
  out.push_back(element_with({counting(DType::i32, {})}, deep));
  return out;
}

// Compares values without the functions of the tested code.
void expect_equal(const Element& got, const Element& expected) {
  EXPECT_EQ(got.index, expected.index);
  EXPECT_EQ(got.epoch, expected.epoch);
  EXPECT_EQ(got.state, nullptr);
  EXPECT_EQ(got.skipped, expected.skipped);
  EXPECT_EQ(print(*got.structure), print(*expected.structure));
  EXPECT_TRUE(*got.structure == *expected.structure);
  ASSERT_EQ(got.fields.size(), expected.fields.size());
  for (std::size_t i = 0; i < got.fields.size(); ++i) {
    ASSERT_EQ(got.fields[i].index(), expected.fields[i].index());
    if (const auto* object = std::get_if<Object>(&expected.fields[i])) {
      EXPECT_EQ(text_of(std::get<Object>(got.fields[i])), text_of(*object));
    } else if (const auto* rows = std::get_if<std::vector<Object>>(&expected.fields[i])) {
      const auto& got_rows = std::get<std::vector<Object>>(got.fields[i]);
      ASSERT_EQ(got_rows.size(), rows->size());
      for (std::size_t r = 0; r < rows->size(); ++r) EXPECT_EQ(text_of(got_rows[r]), text_of((*rows)[r]));
    } else {
      const HostArray &a = array_of(got, i), &b = array_of(expected, i);
      ASSERT_EQ(a.type(), b.type());
      EXPECT_EQ(std::memcmp(a.bytes(), b.bytes(), static_cast<std::size_t>(b.type().bytes())), 0) << b.type();
    }
  }
}

class ElementFiles : public ::testing::Test {
 protected:
  void write(const std::vector<Element>& elements, const std::string& description = "a data set\n") const {
    TemporaryFile file(folder.path("f"));
    ElementWriter writer(file.file(), description, strings());
    for (const Element& element : elements) writer.add(element);
    writer.finish();
    file.commit();
  }
  ElementFile open() const { return {std::make_shared<const OpenFile>(folder.path("f")), strings()}; }
  // The error of opening a file and reading everything in it.
  std::string error() const {
    return error_of([&] {
      try {
        const ElementFile file = open();
        for (std::int64_t i = 0; i < file.size(); ++i) file.read(i);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind, ErrorKind::data) << error.what();
        throw;
      }
    });
  }
  std::string error_with(const std::string& bytes) const {
    folder.put("f", bytes);
    return error();
  }
  TestFolder folder;
};

TEST_F(ElementFiles, ElementsAreReadByIndexAsTheyWereWritten) {
  const std::vector<Element> elements = every_kind();
  write(elements, "");
  const ElementFile file = open();
  EXPECT_EQ(file.description(), "");
  ASSERT_EQ(file.size(), static_cast<std::int64_t>(elements.size()));
  for (std::int64_t i = file.size() - 1; i >= 0; --i) {
    SCOPED_TRACE(i);
    expect_equal(file.read(i), elements[static_cast<std::size_t>(i)]);
  }
  EXPECT_THAT(error_of([&] { file.read(file.size()); }), HasSubstr("does not exist"));
  EXPECT_THAT(error_of([&] { file.read(-1); }), HasSubstr("does not exist"));
}

TEST_F(ElementFiles, AFileWithoutElementsIsValid) {
  write({}, std::string(5000, 'd'));
  EXPECT_EQ(open().size(), 0);
  EXPECT_EQ(open().description(), std::string(5000, 'd'));
}

TEST_F(ElementFiles, ElementsMayBeLargerThanTheBuffer) {
  std::vector<Element> elements;
  for (std::int64_t size : {100, 1 << 18, 10, 3, (1 << 18) - 2, 1 << 19, 1, 200'000, 200'000})
    elements.push_back(element(counting(DType::i32, {size})));
  write(elements);
  const ElementFile file = open();
  for (std::size_t i = 0; i < elements.size(); ++i) expect_equal(file.read(static_cast<std::int64_t>(i)), elements[i]);
}

TEST_F(ElementFiles, SeveralThreadsReadAtTheSameTime) {
  std::vector<Element> elements;
  for (std::int64_t i = 0; i < 200; ++i) elements.push_back(element(HostArray::of<std::int64_t>({2}, {i, -i})));
  write(elements);
  const ElementFile file = open();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::int64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::int64_t n = 0; n < 1000; ++n) {
        const std::int64_t i = (n * (2 * t + 1) + 17 * t) % 200;
        const Element element = file.read(i);
        wrong += array_of(element).data<std::int64_t>()[0] != i || array_of(element).data<std::int64_t>()[1] != -i;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ElementFiles, ATruncatedFileIsAnErrorThatNamesRecordAndByte) {
  const Element scalar = element(HostArray::of<std::int64_t>({}, {5})),
                pair = element_with({object("ab"), object("")}, tuple_structure({leaf_structure(), leaf_structure()}));
  write({scalar, pair, scalar});
  const std::string bytes = folder.content("f");
  ASSERT_EQ(error(), "no error");
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const std::string text = error_with(bytes.substr(0, length));
    EXPECT_THAT(text, HasSubstr(folder.path("f"))) << length;
    if (length >= 43) { EXPECT_THAT(text, HasSubstr(cat("it ends at byte ", length, " in "))) << length; }
  }
  // A header of 43 bytes, records of 16 + 35, 16 + 47 and 16 + 35 bytes, an index of 24 and a trailer of 40.
  ASSERT_EQ(bytes.size(), 43u + 51 + 63 + 51 + 24 + 40);
  EXPECT_THAT(error_with(bytes.substr(0, 93)), HasSubstr("in record 0 or after it, which begins at byte 43;"));
  EXPECT_THAT(error_with(bytes.substr(0, 94)), HasSubstr("in record 1 or after it, which begins at byte 94;"));
  EXPECT_THAT(error_with(bytes.substr(0, 200)), HasSubstr("in record 2 or after it, which begins at byte 157;"));
  EXPECT_THAT(error_with(bytes.substr(0, 230)), HasSubstr("in the index after record 2, which begins at byte 208;"));
  EXPECT_THAT(error_with(bytes.substr(0, 30)), HasSubstr("is not a file of elements"));
  EXPECT_THAT(error_with(bytes.substr(0, 40)), HasSubstr("its description of 11 bytes begins at byte 32;"));
  EXPECT_THAT(error_with("id,label\n1,2\n"), HasSubstr("it must begin with \"KAREZ ELEMENTS 1\""));
  EXPECT_NE(error_with(bytes + "x"), "no error");
}

TEST_F(ElementFiles, ARecordOfTheSizeOfTheHeaderIsNotAnIndex) {
  for (std::size_t count : {2u, 3u}) {
    write(std::vector<Element>(count, element(HostArray::of<std::int64_t>({1}, {5}))));
    const std::size_t last = 43 + (count - 1) * (16 + 43);
    EXPECT_THAT(error_with(folder.content("f").substr(0, last + 20)),
                HasSubstr(cat("in record ", count - 1, " or after it, which begins at byte ", last)));
  }
}

TEST_F(ElementFiles, EveryFlippedBitIsNoticed) {
  std::vector<Element> elements = every_kind();
  elements.pop_back();  // the deep one, for time
  elements.erase(elements.begin() + 3, elements.begin() + 44);
  write(elements);
  const std::string bytes = folder.content("f");
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] ^= static_cast<char>(1 << (i * 5) % 8);
    EXPECT_THAT(error_with(damaged), HasSubstr(folder.path("f"))) << "byte " << i;
  }
}

TEST_F(ElementFiles, ADamagedRecordIsNamedAndTheOthersAreRead) {
  write({element(counting(DType::i32, {4})), element(counting(DType::i32, {4})), element(counting(DType::i32, {4}))});
  std::string bytes = folder.content("f");
  const std::size_t second = 43 + 16 + 16 + 1 + 1 + 1 + 8 + 8 + 16;
  bytes[second + 60] ^= 1;
  folder.put("f", bytes);
  const ElementFile file = open();
  file.read(0), file.read(2);
  EXPECT_THAT(error_of([&] { file.read(1); }),
              HasSubstr(cat(folder.path("f"), ": record 1 at byte ", second + 16, " is damaged: its 51 bytes do not")));
}

TEST_F(ElementFiles, AFileThatIsTruncatedWhileItIsOpenIsAnError) {
  write({element(counting(DType::i32, {4}))});
  const ElementFile file = open();
  folder.put("f", "KAREZ");
  EXPECT_THAT(error_of([&] { file.read(0); }), HasSubstr("truncated after it was opened"));
}

// An index with wrong numbers and right checksums, as no writer makes it.
TEST_F(ElementFiles, AnIndexThatDoesNotDescribeTheFileIsAnError) {
  write({element(counting(DType::i32, {})), element(counting(DType::i32, {}))});
  const std::string bytes = folder.content("f");
  const std::size_t index = bytes.size() - 40 - 16;
  const auto error_with_words = [&](std::uint64_t first, std::uint64_t second, std::uint64_t count, std::uint64_t at) {
    std::vector<std::uint64_t> words{first, second, count, at};
    words.push_back(hash_bytes(std::as_bytes(std::span(words))));
    std::string damaged = bytes;
    std::memcpy(damaged.data() + index, words.data(), 40);
    return error_with(damaged);
  };
  EXPECT_EQ(error_with_words(43, 90, 2, index), "no error");
  const std::uint64_t huge = ~std::uint64_t{0};
  for (std::uint64_t second :
       {std::uint64_t{0}, std::uint64_t{43}, std::uint64_t{58}, index - 15, index, huge, huge - 16})
    EXPECT_THAT(error_with_words(43, second, 2, index), HasSubstr("is damaged: the index at byte ")) << second;
  EXPECT_THAT(error_with_words(42, 90, 2, index), HasSubstr("has byte 42 for record 0"));
  EXPECT_THAT(error_with_words(43, 91, 2, index), HasSubstr("record 0 at byte 59 is damaged"));
  for (std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{3}, huge, huge / 8 + 3})
    EXPECT_THAT(error_with_words(43, 90, count, index), HasSubstr("is damaged: the trailer at byte ")) << count;
  for (std::uint64_t at : {std::uint64_t{0}, index - 8, index + 8, index + 1, huge})
    EXPECT_THAT(error_with_words(43, 90, 2, at), HasSubstr("is damaged: the trailer at byte ")) << at;
}

std::string record_error(const std::string& bytes) {
  ArrayPool pool;
  return error_of([&] { element_of(bytes, strings(), pool, {"f", 7, 100}); });
}

TEST(ElementRecord, EveryBeginningOfARecordIsAnError) {
  for (const Element& element : every_kind()) {
    const std::string record = record_of(element, strings());
    EXPECT_EQ(record_error(record), "no error");
    const std::size_t step = record.size() > 5000 ? 197 : 1;  // of the deep element, for time
    for (std::size_t length = 0; length < record.size(); length += step)
      EXPECT_THAT(record_error(record.substr(0, length)), HasSubstr("f: record 7 at byte 100 is damaged: "));
    EXPECT_THAT(record_error(record + '\0'), HasSubstr("the end of the record at byte "));
  }
}

TEST(ElementRecord, SizesAreCheckedBeforeMemoryIsAllocated) {
  const std::string record = record_of(element(counting(DType::f32, {2, 3})), {});
  // Epoch and index (16 bytes), leaf, array, dtype, number of dimensions (8), sizes (16), values.
  const auto with = [&](std::size_t at, std::vector<std::int64_t> words) {
    std::string out = record;
    std::memcpy(out.data() + at, words.data(), 8 * words.size());
    return record_error(out);
  };
  const std::int64_t large = std::int64_t{1} << 40, largest = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t dimensions : {std::int64_t{6}, large, largest, std::int64_t{-1}})
    EXPECT_THAT(with(19, {dimensions}), HasSubstr("the number of dimensions at byte 119 is invalid")) << dimensions;
  for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{2, 4},
                                                 {large, 3},
                                                 {large, large},
                                                 {largest, largest},
                                                 {0, largest},
                                                 {-1, 3},
                                                 {-2, -3}})
    EXPECT_THAT(with(27, sizes), HasSubstr("an array at byte 143 is invalid"));
  EXPECT_THAT(with(27, {0, 5}), HasSubstr("the end of the record at byte 143 is invalid"));
  EXPECT_EQ(with(27, {6, 1}), "no error");
  std::string other = record;
  other[16] = 4;  // a skipped element
  EXPECT_THAT(record_error(other), HasSubstr("the end of the record at byte 117 is invalid"));
  other[16] = 5;
  EXPECT_THAT(record_error(other), HasSubstr("the kind of a structure at byte 116 is invalid"));
  other = record, other[17] = 3;
  EXPECT_THAT(record_error(other), HasSubstr("the kind of a field at byte 117 is invalid"));
  other = record, other[18] = 8;
  EXPECT_THAT(record_error(other), HasSubstr("a dtype at byte 118 is invalid"));
  other = record_of(element(counting(DType::b8, {2})), {});
  other.back() = 2;
  EXPECT_THAT(record_error(other), HasSubstr("an array of bools at byte 135 is invalid"));
}

TEST(ElementRecord, AStructureWithoutFieldsForItsLeavesIsAnError) {
  std::string record(16, '\0');
  record += std::string("\2\0\0\1\0\0\0\0\0", 9) + std::string(1 << 16, '\0');  // a list of 65,536 leaves
  EXPECT_THAT(record_error(record), HasSubstr("the number of fields at byte 65661 is invalid"));
}

TEST(ElementRecord, WhatCannotBeStoredIsAnError) {
  const StructureRef leaf = leaf_structure();
  const auto error = [](std::vector<Field> fields, StructureRef structure) {
    return error_of([&] { record_of(element_with(std::move(fields), std::move(structure)), {}); });
  };
  EXPECT_THAT(error({object("x")}, leaf), HasSubstr("cannot be stored without an ObjectCodec"));
  EXPECT_THAT(error({std::vector<Object>{}}, leaf), HasSubstr("cannot be stored without an ObjectCodec"));
  EXPECT_THAT(error({}, leaf), HasSubstr("one leaf for each of its 0 fields"));
  EXPECT_THAT(error({}, nullptr), HasSubstr("one leaf for each of its 0 fields"));
  EXPECT_THAT(error({HostArray()}, leaf), HasSubstr("not initialised"));
  EXPECT_THAT(error({}, structure(Kind::dict, {}, {"key"})), HasSubstr("a dict of an element has 0 values and 1 keys"));
  StructureRef deep = leaf;
  for (int i = 0; i < 1001; ++i) deep = structure(Kind::tuple, {deep});
  EXPECT_THAT(error({counting(DType::i32, {})}, deep), HasSubstr("nested more than 1000 times"));
  const std::string record = record_of(element_with({object("x")}, leaf), strings());
  ArrayPool pool;
  EXPECT_THAT(error_of([&] { element_of(record, {}, pool); }), HasSubstr("cannot be restored without an ObjectCodec"));
}

TEST(ElementRecord, RecordsNestedTooDeepAreErrors) {
  std::string record(16, '\0');
  for (int i = 0; i < 100'000; ++i) record += std::string("\1\1\0\0\0\0\0\0\0", 9);
  EXPECT_THAT(record_error(record), HasSubstr("nested more than 1000 times"));
}

}  // namespace
}  // namespace karez::data
