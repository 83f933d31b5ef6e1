// Tests of JSONL: lines, tokens, fields as arrays, and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/base/test_error.h"
#include "karez/base/text.h"
#include "karez/data/formats/test_records.h"

namespace karez::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ReadRecords documents(const std::string& text, const JsonlOptions& format = {}, FileOptions options = {},
                      std::size_t piece = 1 << 20) {
  options.open = memory_files({{"a.jsonl", text}}, piece);
  return read_records(from_jsonl({"a.jsonl"}, format, options));
}

// The tokens of documents as text.
JsonlOptions as_tokens() {
  return {.make = [](const JsonDocument& document) {
    std::string out;
    document([&](const JsonToken& token) {
      using Kind = JsonToken::Kind;
      switch (token.kind) {
        case Kind::null: out += "null "; break;
        case Kind::boolean: out += token.boolean ? "true " : "false "; break;
        case Kind::integer: out += cat("i", token.integer, " "); break;
        case Kind::unsigned_integer: out += cat("u", token.unsigned_integer, " "); break;
        case Kind::number: out += cat("d", token.number, " "); break;
        case Kind::text: out += cat("'", token.text, "' "); break;
        case Kind::key: out += cat(token.text, ": "); break;
        case Kind::list: out += "[ "; break;
        case Kind::list_end: out += "] "; break;
        case Kind::dict: out += "{ "; break;
        case Kind::dict_end: out += "} "; break;
      }
    });
    return element(bytes_array({reinterpret_cast<const std::uint8_t*>(out.data()), out.size()}));
  }};
}

TEST(FromJsonl, LinesAreCheckedAndBlankLinesIgnored) {
  for (std::size_t piece : {1, 5, 1000})
    EXPECT_THAT(documents("{\"a\": 1}\n\n \t\n[2]\r\n\"x\"", {}, {}, piece).records,
                ElementsAre(quote("{\"a\": 1}"), "\"[2]\"", quote("\"x\"")));
  EXPECT_THAT(documents("").records, ElementsAre());
}

TEST(FromJsonl, TokensAreTheDocument) {
  EXPECT_THAT(documents("null\n[true, false, -1, 18446744073709551615, 2.5, \"\\u00e4\\n\", [], {}]\n"
                        "{\"k\": {\"k\": 1e3}, \"k\": []}",
                        as_tokens())
                  .records,
              ElementsAre("\"null \"", quote("[ true false i-1 u18446744073709551615 d2.5 '\xc3\xa4\n' [ ] { } ] "),
                          "\"{ k: { k: d1000.0 } k: [ ] } \""));
}

TEST(FromJsonl, FieldsBecomeArrays) {
  const JsonlOptions format = {
      .fields = {{"x", DType::f32}, {"text"}, {"ids", DType::i64}, {"ok", DType::b8}, {"p", DType::u8}}};
  EXPECT_THAT(
      documents(
          "{\"text\": \"\\u00e4\", \"x\": 1, \"ids\": [[1, 2], [3, 4]], \"ok\": true, \"p\": [65], \"more\": null}\n"
          "{\"x\": -0.5, \"text\": \"\", \"ids\": [], \"ok\": [false], \"p\": 0, \"x\": 2.5}",
          format)
          .records,
      ElementsAre("{x: f32[](1.0), text: \"\xc3\xa4\", ids: i64[2, 2](1 2 3 4), ok: bool[](1), p: \"A\"}",
                  "{x: f32[](2.5), text: \"\", ids: i64[0](), ok: bool[1](0), p: u8[](0)}"));
}

TEST(FromJsonl, FieldsThatDoNotFitAreErrors) {
  const auto error = [](const std::string& line, DType dtype) {
    return documents("{\"x\": 0}\n" + line, {.fields = {{"x", dtype}}}).error;
  };
  EXPECT_EQ(error("{\"y\": 1}", DType::f32), "a.jsonl: line 2 at byte 9: the field \"x\" is missing");
  EXPECT_EQ(error("[1]", DType::f32), "a.jsonl: line 2 at byte 9: the line is not a dict, but fields of it are read");
  EXPECT_THAT(error("{\"x\": null}", DType::f32),
              HasSubstr("the field \"x\" cannot be read as f32: expected a number"));
  EXPECT_THAT(error("{\"x\": \"1\"}", DType::f64), HasSubstr("expected a number"));
  EXPECT_THAT(error("{\"x\": 1.5}", DType::i64), HasSubstr("expected an integer"));
  EXPECT_THAT(error("{\"x\": 18446744073709551615}", DType::i64), HasSubstr("expected an integer"));
  EXPECT_THAT(error("{\"x\": 2147483648}", DType::i32), HasSubstr("the integer 2147483648 is out of range"));
  EXPECT_THAT(error("{\"x\": -1}", DType::u8), HasSubstr("the integer -1 is out of range"));
  EXPECT_THAT(error("{\"x\": true}", DType::i32), HasSubstr("expected an integer"));
  EXPECT_THAT(documents("{\"x\": 1}", {.fields = {{"x", DType::b8}}}).error, HasSubstr("expected a bool"));
  EXPECT_THAT(error("{\"x\": [[1], [2, 3]]}", DType::i32), HasSubstr("its lists have different lengths, 1 and 2"));
  EXPECT_THAT(error("{\"x\": [1, [2]]}", DType::i32), HasSubstr("not nested equally deep"));
  EXPECT_THAT(error("{\"x\": [[1], 2]}", DType::i32), HasSubstr("not nested equally deep"));
  EXPECT_THAT(error("{\"x\": [[], [[]]]}", DType::i32), HasSubstr("different lengths"));
  EXPECT_THAT(documents("{\"x\": 1}", {.fields = {{"x"}}}).error, HasSubstr("the field \"x\" is not text"));
  EXPECT_THAT(error_of([] { from_jsonl({"a"}, {.fields = {{"x", DType::f16}}}); }), HasSubstr("got f16"));
}

TEST(FromJsonl, LinesThatAreNotJsonNameFileLineAndByte) {
  for (const char* line : {"{", "[1,]", "{\"a\" 1}", "nul", "01", "\"\\x\"", "1 2", "'a'", "NaN", "\"a", "{\"a\": 1}}",
                           "99999999999999999999999", "\"\x01\""}) {
    EXPECT_THAT(documents(cat("1\n", line, "\n3"), as_tokens()).error,
                HasSubstr("a.jsonl: line 2 at byte 2: the line is not JSON: "))
        << line;
    FileOptions options;
    options.on_error = OnError::skip;
    options.report = [](const SkippedRecords& skipped) { EXPECT_EQ(skipped.count, 1); };
    EXPECT_THAT(documents(cat("1\n", line, "\n3"), as_tokens(), options).records, ElementsAre("\"i1 \"", "\"i3 \""))
        << line;
  }
  EXPECT_THAT(documents("\"\xff\"").error,
              HasSubstr("line 1 at byte 0: the text is not UTF-8: invalid byte 0xff at byte 1"));
  EXPECT_THAT(documents(std::string(100'000, '[')).error, HasSubstr("the line is not JSON"));
}

}  // namespace
}  // namespace karez::data
