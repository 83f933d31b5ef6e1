// Tests of TFRecord files and tf.train.Example against a writer without code of the reader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "karez/base/test_error.h"
#include "karez/base/text.h"
#include "karez/data/formats/isal_crc32c.h"
#include "karez/data/formats/test_records.h"

namespace karez::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Dataset records_of(const std::string& bytes, FileOptions options = {}, std::size_t piece = 1 << 20,
                   bool examples = false) {
  options.open = memory_files({{"a.tfrecord", bytes}}, piece);
  return from_tfrecord({"a.tfrecord"}, {.examples = examples}, options);
}

std::uint32_t sum_of(std::string_view bytes) {
  return crc32c({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

TEST(Crc32c, EqualsTheBitwiseDefinition) {
  EXPECT_EQ(sum_of("123456789"), 0xe3069283u);  // the check value of the polynomial's catalogue
  EXPECT_EQ(sum_of(""), 0u);
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(sum_of(bytes), bitwise_crc32c(bytes)) << i;
    bytes += static_cast<char>(i * 73 + 5);
  }
}

TEST(FromTfrecord, RecordsHaveAnyBytesAndSizes) {
  const std::string bytes = tfrecord_file({"one", "", std::string("\0\xff\n", 3), std::string(300'000, 'x'), "z"});
  for (std::size_t piece : {1000, 65536, 1 << 20}) {
    const ReadRecords got = read_records(records_of(bytes, {}, piece));
    EXPECT_EQ(got.error, "");
    ASSERT_EQ(got.records.size(), 5u);
    EXPECT_THAT(std::vector(got.records.begin(), got.records.begin() + 3),
                ElementsAre("\"one\"", "\"\"", quote(std::string_view("\0\xff\n", 3))));
    EXPECT_EQ(got.records[3].size(), 300'002u);
  }
  EXPECT_THAT(read_records(records_of(tfrecord_file({"a", "b"}), {}, 1)).records, ElementsAre("\"a\"", "\"b\""));
  EXPECT_THAT(read_records(records_of("")).records, IsEmpty());
}

TEST(FromTfrecord, EveryTruncationIsAnErrorThatNamesRecordAndByte) {
  const std::string bytes = tfrecord_file({"one", "seven"});
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const ReadRecords got = read_records(records_of(bytes.substr(0, size), {}, 7));
    if (size == 0 || size == 19 || size == bytes.size()) {
      EXPECT_EQ(got.error, "") << size;
      continue;
    }
    const std::string place = size < 19 ? "a.tfrecord: record 0 at byte 0" : "a.tfrecord: record 1 at byte 19";
    EXPECT_THAT(got.error, HasSubstr(cat(place, ": the file ends at byte ", size, " in the "))) << size;
  }
}

TEST(FromTfrecord, EveryChangedByteIsNoticed) {
  const std::string bytes = tfrecord_file({"one", "two"});
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] ^= 0x10;
    const std::string what =
        i % 19 < 12 ? "the checksum of the length is wrong" : "the checksum of the record is wrong";
    EXPECT_THAT(read_records(records_of(changed)).error,
                ::testing::AllOf(HasSubstr(cat("a.tfrecord: record ", i / 19, " at byte ", i / 19 * 19, ": ")),
                                 HasSubstr(what)))
        << i;
  }
}

TEST(FromTfrecord, ADamagedRecordIsSkippedAndADamagedLengthEndsTheFile) {
  std::string bytes = tfrecord_file({"one", "two", "three", "four"});
  bytes[19 + 13] ^= 1;  // in "two"
  std::vector<SkippedRecords> reports;
  FileOptions options;
  options.on_error = OnError::skip;
  options.report = [&](const SkippedRecords& skipped) { reports.push_back(skipped); };
  EXPECT_THAT(read_records(records_of(bytes, options)).records, ElementsAre("\"one\"", "\"three\"", "\"four\""));
  EXPECT_EQ(reports.at(0).count, 1);
  EXPECT_THAT(reports.at(0).first_error, HasSubstr("record 1 at byte 19: the checksum of the record is wrong"));
  bytes[38] ^= 1;  // the length of "three"
  reports.clear();
  EXPECT_THAT(read_records(records_of(bytes, options)).records, ElementsAre("\"one\""));
  EXPECT_EQ(reports.at(0).count, 2);
}

TEST(FromTfrecord, AHugeLengthTakesNoMemory) {
  const std::string length = little_endian<std::uint64_t>(1ull << 60);
  const std::uint32_t crc = bitwise_crc32c(length);
  const std::string header = length + little_endian<std::uint32_t>(((crc >> 15) | (crc << 17)) + 0xa282ead8u);
  EXPECT_EQ(
      read_records(records_of(header + "x")).error,
      "a.tfrecord: record 0 at byte 0: the record has 1152921504606846976 bytes, more than the limit of 268435456 "
      "(max_record_bytes)");
  FileOptions options;
  options.max_record_bytes = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(read_records(records_of(header + "x", options)).error,
            "a.tfrecord: record 0 at byte 0: the file ends at byte 13 in the record, which needs 1152921504606846992 "
            "bytes");
}

// Messages of protocol buffers.
std::string varint(std::uint64_t n) {
  std::string out;
  for (; n >= 0x80; n >>= 7) out += static_cast<char>(0x80 | (n & 0x7f));
  return out + static_cast<char>(n);
}
std::string field(int number, const std::string& bytes) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string feature(const std::string& name, const std::string& value) {
  return field(1, field(1, name) + field(2, value));
}
std::string f32_bytes(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return little_endian(bits);
}
std::string parsed(const std::string& bytes) {
  return print_element(parse_example({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}));
}

TEST(ParseExample, ListsBecomeArraysSortedByName) {
  const std::string bytes =
      field(1, feature("label", field(3, field(1, varint(7) + varint(-3ull)))) +
                   feature("image", field(1, field(1, "png") + field(1, ""))) +
                   feature("box", field(2, field(1, f32_bytes(0.5f) + f32_bytes(-2)))) + feature("none", ""));
  EXPECT_EQ(parsed(bytes), R"({box: f32[2](0.5 -2.0), image: ["png", ""], label: i64[2](7 -3)})");
  EXPECT_EQ(parsed(""), "{}");
  EXPECT_EQ(parsed(field(1, feature("e", field(1, "")))), "{e: []}");
  EXPECT_EQ(parsed(field(1, feature("f", field(2, "")))), "{f: f32[0]()}");
}

TEST(ParseExample, NumbersMayBeUnpackedAndListsMayBeDivided) {
  const std::string key = varint(1 << 3 | 5), integer = varint(1 << 3);
  EXPECT_EQ(parsed(field(1, feature("x", field(2, key + f32_bytes(1) + field(1, f32_bytes(2)))))),
            "{x: f32[2](1.0 2.0)}");
  EXPECT_EQ(parsed(field(1, feature("x", field(3, integer + varint(1)) + field(3, field(1, varint(2)))))),
            "{x: i64[2](1 2)}");
  EXPECT_EQ(parsed(field(1, feature("x", field(2, field(1, f32_bytes(1))) + field(3, field(1, varint(2)))))),
            "{x: i64[1](2)}")
      << "a list of another kind replaces the first";
  EXPECT_EQ(parsed(field(1, feature("x", field(3, field(1, varint(1))))) +
                   field(1, feature("x", field(3, field(1, varint(2)))))),
            "{x: i64[1](2)}")
      << "the last feature with a name counts";
}

TEST(ParseExample, UnknownFieldsAreIgnored) {
  const std::string unknown = varint(9 << 3) + varint(1ull << 63) + varint(9 << 3 | 1) + "12345678" + field(10, "abc") +
                              varint(9 << 3 | 5) + "1234";
  EXPECT_EQ(
      parsed(unknown + field(1, unknown + feature("x", unknown + field(3, unknown + field(1, varint(5))))) + unknown),
      "{x: i64[1](5)}");
  const std::string value = field(3, field(1, varint(5)));
  EXPECT_EQ(parsed(field(1, field(1, unknown + field(1, "x") + unknown + field(2, value) + unknown))),
            "{x: i64[1](5)}");
}

TEST(ParseExample, AnythingElseIsAnErrorThatNamesTheByte) {
  const auto error = [](const std::string& bytes) { return error_of([&] { parsed(bytes); }); };
  EXPECT_EQ(error("\x80"), "this is not a tf.train.Example: the message ends within a number, at byte 1 of the record");
  EXPECT_THAT(error("\x0a\x05"
                    "ab"),
              HasSubstr("a field is longer than the message that contains it, at byte 2"));
  EXPECT_THAT(error(std::string(11, '\xff')), HasSubstr("a number has more than 10 bytes"));
  EXPECT_THAT(error(varint(0)), HasSubstr("a field has the number 0"));
  EXPECT_THAT(error(varint(9 << 3 | 3)), HasSubstr("the unsupported wire type 3"));
  EXPECT_THAT(error(varint(9 << 3 | 1) + "123"), HasSubstr("the message ends within a field"));
  EXPECT_THAT(error(varint(1 << 3) + varint(1)), HasSubstr("its features have another type"));
  EXPECT_THAT(error(field(1, feature("x", field(2, field(1, "abc"))))), HasSubstr("the message ends within a field"));
  EXPECT_THAT(error(field(1, feature("x", field(2, varint(1 << 3) + varint(1))))), HasSubstr("a float_list"));
  EXPECT_THAT(error(field(1, feature("x", field(3, varint(1 << 3 | 5) + "1234")))), HasSubstr("an int64_list"));
  EXPECT_THAT(error(field(1, feature("x", field(1, varint(1 << 3) + varint(1))))), HasSubstr("a bytes_list"));
  EXPECT_THAT(error(field(1, feature("\xff", ""))),
              HasSubstr("the name of a feature: the text is not UTF-8: invalid byte 0xff at byte 6"));
}

TEST(FromTfrecord, ExamplesAreParsedAndErrorsNameTheRecord) {
  const std::string good = field(1, feature("x", field(3, field(1, varint(5)))));
  const std::string bytes = tfrecord_file({good, "\x80", good});
  const ReadRecords got = read_records(records_of(bytes, {}, 100, true));
  EXPECT_THAT(got.records, ElementsAre("{x: i64[1](5)}"));
  EXPECT_EQ(got.error, cat("a.tfrecord: record 1 at byte ", good.size() + 16,
                           ": this is not a tf.train.Example: the message ends "
                           "within a number, at byte 1 of the record"));
  FileOptions options;
  options.on_error = OnError::skip;
  options.report = [](const SkippedRecords&) {};
  EXPECT_EQ(read_records(records_of(bytes, options, 100, true)).records.size(), 2u);
}

}  // namespace
}  // namespace karez::data
