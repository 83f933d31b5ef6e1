// Tests of CSV: quotes, line ends, headers, columns and their dtypes, missing values, and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/base/test_error.h"
#include "karez/base/text.h"
#include "karez/data/formats/test_records.h"

namespace karez::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ReadRecords rows(const std::string& text, const CsvOptions& format = {}, FileOptions options = {},
                 std::size_t piece = 1 << 20) {
  options.open = memory_files({{"a.csv", text}}, piece);
  return read_records(from_csv({"a.csv"}, format, options));
}

TEST(FromCsv, RowsAreDictsOfTheColumns) {
  for (std::size_t piece : {1, 2, 3, 1000}) {
    EXPECT_THAT(rows("a,b\n1,x\r\n\n2,\n", {}, {}, piece).records,
                ElementsAre(R"({a: "1", b: "x"})", R"({a: "2", b: ""})"));
    EXPECT_THAT(rows("a,b\n1,x", {}, {}, piece).records, ElementsAre(R"({a: "1", b: "x"})"));
    EXPECT_THAT(rows("\xef\xbb\xbf\"a\"\r\n1\r\n", {}, {}, piece).records, ElementsAre(R"({a: "1"})"));
    EXPECT_THAT(rows("a\n", {}, {}, piece).records, ElementsAre());
  }
  EXPECT_THAT(rows("").records, ElementsAre());
  EXPECT_EQ(rows("").error, "");
}

TEST(FromCsv, QuotedFieldsContainAnything) {
  for (std::size_t piece : {1, 2, 3, 1000}) {
    const ReadRecords got = rows("a,b\n\"1,\n\r\n\"\"x\"\"\",\"\"\r\n\"\",\" y \"\n  z ,\"\"\"\"", {}, {}, piece);
    EXPECT_EQ(got.error, "");
    EXPECT_THAT(got.records, ElementsAre(cat("{a: ", quote("1,\n\r\n\"x\""), ", b: \"\"}"), R"({a: "", b: " y "})",
                                         cat("{a: \"  z \", b: ", quote("\""), "}")));
    EXPECT_THAT(rows("a\n\"\"\n\n\"\"", {}, {}, piece).records, ElementsAre(R"({a: ""})", R"({a: ""})")) << "not blank";
  }
}

TEST(FromCsv, ColumnsAreSelectedAndHaveDtypes) {
  CsvOptions format;
  format.columns = {{"y", DType::i64, {}}, {"x", DType::f32, {}}, {"s", {}, {}},        {"ok", DType::b8, {}},
                    {"p", DType::u8, {}},  {"d", DType::f64, {}}, {"i", DType::i32, -1}};
  const ReadRecords got = rows("x,unused,y,s,ok,p,d,i\n1.5,?,-7,text,true,255,1e-300,5\n, ,+3,,0,0, -inf ,\n", format);
  EXPECT_EQ(got.error, "");
  EXPECT_THAT(
      got.records,
      ElementsAre(
          R"({y: i64[](-7), x: f32[](1.5), s: "text", ok: bool[](1), p: u8[](255), d: f64[](1e-300), i: i32[](5)})",
          R"({y: i64[](3), x: f32[](nan), s: "", ok: bool[](0), p: u8[](0), d: f64[](-inf), i: i32[](-1)})"));
}

TEST(FromCsv, FilesMayHaveNoHeaderAndOtherDelimiters) {
  CsvOptions format = {.delimiter = ';', .header = false};
  EXPECT_THAT(rows("1;a,b\n2;\n", format).records, ElementsAre(R"({0: "1", 1: "a,b"})", R"({0: "2", 1: ""})"));
  format.names = {"n", "s"};
  format.columns = {{"n", DType::i32, {}}};
  EXPECT_THAT(rows("1;a,b\n2;\n", format).records, ElementsAre("{n: i32[](1)}", "{n: i32[](2)}"));
  EXPECT_THAT(rows("1;2;3\n", format).error,
              HasSubstr("line 1 at byte 0: the row has 3 fields, but there are 2 columns"));
}

TEST(FromCsv, ValuesThatDoNotFitAreErrorsThatNameTheColumn) {
  const auto error = [](const std::string& field, DType dtype) {
    CsvOptions format;
    format.columns = {{"x", dtype, {}}};
    return rows("x,y\n1,1\n\n" + field + ",1\n", format).error;
  };
  EXPECT_EQ(error("1.5", DType::i64), "a.csv: line 4 at byte 9: column \"x\": \"1.5\" is not a value of i64");
  EXPECT_THAT(error("2147483648", DType::i32), HasSubstr("is not a value of i32"));
  EXPECT_THAT(error("256", DType::u8), HasSubstr("is not a value of u8"));
  EXPECT_THAT(error("-1", DType::u8), HasSubstr("is not a value of u8"));
  EXPECT_THAT(error("1 2", DType::f32), HasSubstr("is not a value of f32"));
  EXPECT_THAT(error("+-1", DType::f32), HasSubstr("is not a value of f32"));
  EXPECT_THAT(error("yes", DType::b8), HasSubstr("is not a value of bool"));
  EXPECT_THAT(error("", DType::i64), HasSubstr("column \"x\": the value is missing"));
  EXPECT_EQ(error("", DType::f64), "");
}

TEST(FromCsv, RowsThatAreNotValidAreErrorsOrSkipped) {
  const std::tuple<std::string, std::string, std::int64_t> cases[] = {
      {"1\n", "a.csv: line 3 at byte 8: the row has 1 fields, but there are 2 columns", 1},
      {"1,2,3\n", "the row has 3 fields, but there are 2 columns", 1},
      {"1,a\"b\n", "a.csv: line 3 at byte 8: a quote within a field that does not begin with a quote, at byte 11", 1},
      {"1,\"a\"b\n", "a character follows the closing quote of a field, at byte 13", 1},
      {"\"1\"\rx,2\n", "a character follows the closing quote", 1},
      {"1,\xff\n", "the text is not UTF-8: invalid byte 0xff at byte 10", 1},
      {"\"1\n\" ,2\n", "a character follows the closing quote", 1},
      {"\"1\n2,3\n4,5\n", "a.csv: line 3 at byte 8: the file ends within a quoted field, at byte 8", 1},
  };
  for (const auto& [row, message, count] : cases)
    for (std::size_t piece : {1, 1000}) {
      EXPECT_THAT(rows("a,b\n0,0\n" + row + "8,9\n", {}, {}, piece).error, HasSubstr(message));
      FileOptions options;
      options.on_error = OnError::skip;
      options.report = [expected = count](const SkippedRecords& skipped) { EXPECT_EQ(skipped.count, expected); };
      const ReadRecords got = rows("a,b\n0,0\n" + row + "8,9\n", {}, options, piece);
      ASSERT_GE(got.records.size(), 2u);
      EXPECT_EQ(got.records.front(), R"({a: "0", b: "0"})");
      EXPECT_EQ(got.records.back(), R"({a: "8", b: "9"})") << message;
    }
}

TEST(FromCsv, LinesAreCountedWithinQuotes) {
  EXPECT_THAT(rows("a,b\n\"x\ny\nz\",1\n\n2\n").error, HasSubstr("a.csv: line 6 at byte 15: the row has 1 fields"));
}

TEST(FromCsv, ARowMayHaveTheMaximumLength) {
  FileOptions options;
  options.max_record_bytes = 5;
  EXPECT_THAT(rows("a\n12345\n", {}, options).records, ElementsAre(R"({a: "12345"})"));
  EXPECT_THAT(rows("a\n123456\n", {}, options).error, HasSubstr("line 2 at byte 2: the row has more than 5 bytes"));
  EXPECT_THAT(rows("a\n\"123\n456\"\n", {}, options).error,
              HasSubstr("line 2 at byte 2: the row has more than 5 bytes"));
  options.on_error = OnError::skip;
  options.report = [](const SkippedRecords& skipped) { EXPECT_EQ(skipped.count, 1); };
  for (std::size_t piece : {1, 1000})
    EXPECT_THAT(rows("a\n123456789\n1\n", {}, options, piece).records, ElementsAre(R"({a: "1"})"));
}

TEST(FromCsv, HeadersAreChecked) {
  EXPECT_EQ(rows("a,b,a\n1,2,3\n").error, "a.csv: the header has two columns with the name \"a\"");
  CsvOptions format;
  format.columns = {{"c", {}, {}}};
  EXPECT_EQ(rows("a,b\n1,2\n", format).error, "a.csv: there is no column \"c\"; the columns are \"a\", \"b\"");
  EXPECT_THAT(rows("a,\"b\n1,2\n").error, HasSubstr("line 1 at byte 0: the file ends within a quoted field"));
}

TEST(FromCsv, OptionsAreChecked) {
  const auto error = [](const CsvOptions& format) { return error_of([&] { from_csv({"a"}, format); }); };
  EXPECT_THAT(error({.delimiter = '"'}), HasSubstr("the delimiter must not be a quote"));
  EXPECT_THAT(error({.delimiter = '\n'}), HasSubstr("the delimiter must not be"));
  EXPECT_THAT(error({.names = {"a"}}), HasSubstr("names are only for files without a header"));
  EXPECT_THAT(error({.header = false, .names = {"a", "a"}}), HasSubstr("two columns have the name \"a\""));
  EXPECT_THAT(error({.columns = {{"a", {}, {}}, {"a", {}, {}}}}), HasSubstr("the column \"a\" is selected twice"));
  EXPECT_THAT(error({.columns = {{"a", DType::bf16, {}}}}), HasSubstr("the dtype must be f32"));
  EXPECT_THAT(error({.columns = {{"a", {}, 1}}}), HasSubstr("a missing value needs a dtype"));
  EXPECT_THAT(error({.columns = {{"a", DType::u8, -1}}}), HasSubstr("the missing value -1.0 is not a value of u8"));
  EXPECT_THAT(error({.columns = {{"a", DType::i64, 0.5}}}), HasSubstr("is not a value of i64"));
}

}  // namespace
}  // namespace karez::data
