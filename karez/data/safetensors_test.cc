// Tests of safetensors headers: valid ones, as the format describes them, and damaged ones.
#include "karez/data/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace karez::data {
namespace {
using ::testing::HasSubstr;

// Returns the error for a header's text and the number of bytes after it.
std::string error_of(const std::string& text, std::int64_t data_bytes) {
  try {
    parse_weight_header(text, 8 + static_cast<std::int64_t>(text.size()) + data_bytes, "m.safetensors");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::data) << error.what();
    return error.what();
  }
  return "no error";
}
std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" + offsets + "]}";
}

TEST(Safetensors, AHeaderHasTheTensorsTypesAndOffsets) {
  const std::string text = "{\"__metadata__\":{\"format\":\"pt\",\"a\\u00e4\":\"x\\ny\"}," +
                           entry("late", "I64", "", "8,16") + ", \n" +
                           "\"early\":{\"data_offsets\":[0,8],\"shape\":[2, 1],\"dtype\":\"F32\"}," +
                           entry("nothing", "BOOL", "0,5", "8,8") + "}   ";
  const WeightHeader header = parse_weight_header(text, static_cast<std::int64_t>(text.size()) + 24, "m.safetensors");
  ASSERT_EQ(header.entries.size(), 3u);
  EXPECT_EQ(header.entries[0], (WeightEntry{"early", "F32", {2, 1}, 0, 8}));
  EXPECT_EQ(header.entries[1], (WeightEntry{"nothing", "BOOL", {0, 5}, 8, 8}));
  EXPECT_EQ(header.entries[2], (WeightEntry{"late", "I64", {}, 8, 16}));
  EXPECT_EQ(header.notes, (WeightNotes{{"format", "pt"}, {"a\xc3\xa4", "x\ny"}}));
  EXPECT_TRUE(parse_weight_header("{}", 10, "m").entries.empty());
}

TEST(Safetensors, TheLengthOfTheHeaderIsChecked) {
  const auto error = [](const std::string& first, std::int64_t bytes) {
    try {
      weight_header_bytes(first, bytes, "m.safetensors");
    } catch (const Error& error) { return std::string(error.what()); }
    return std::string("no error");
  };
  const std::string length_ten("\x0a\0\0\0\0\0\0\0", 8);
  EXPECT_EQ(weight_header_bytes(length_ten, 18, "m"), 10);
  EXPECT_EQ(error(length_ten, 17),
            "m.safetensors: the header should have 10 bytes, but only 9 follow: the file is truncated");
  EXPECT_EQ(error("", 0),
            "m.safetensors: the file has 0 bytes, but a safetensors file begins with 8 bytes that give the length of "
            "its header");
  EXPECT_EQ(
      error(std::string("\x01\xe1\xf5\x05\0\0\0\0", 8), 1'000'000'000),
      "m.safetensors: the header should have 100000001 bytes, but at most 100000000 are allowed; this may not be a "
      "safetensors file");
  EXPECT_EQ(weight_header_bytes(std::string("\x00\xe1\xf5\x05\0\0\0\0", 8), 100'000'008, "m"), 100'000'000);
  EXPECT_THAT(error(std::string(8, '\xff'), 1'000'000), HasSubstr("the header should have 18446744073709551615 bytes"));
  EXPECT_THAT(error(std::string("\0\0\0\0\0\0\0\x80", 8), 1'000'000),
              HasSubstr("the header should have 9223372036854775808 bytes"));
}

TEST(Safetensors, OffsetsAndShapesMustAgreeWithEachOtherAndWithTheFile) {
  const std::string a = entry("a", "F32", "2", "0,8");
  EXPECT_EQ(error_of("{" + a + "}", 8), "no error");
  EXPECT_EQ(error_of("{" + a + "}", 9),
            "m.safetensors: the tensors end at byte 8 after the header, but the file ends at byte 9");
  EXPECT_EQ(error_of("{" + a + "}", 7),
            "m.safetensors: tensor \"a\": its offsets 0 to 8 are not a range of the 7 bytes after the header");
  EXPECT_EQ(error_of("{" + entry("a", "F32", "2", "8,0") + "}", 8),
            "m.safetensors: tensor \"a\": its offsets 8 to 0 are not a range of the 8 bytes after the header");
  EXPECT_EQ(error_of("{" + entry("a", "F32", "3", "0,8") + "}", 8),
            "m.safetensors: tensor \"a\": F32[3] takes 12 bytes, but its offsets 0 to 8 cover 8");
  EXPECT_EQ(error_of("{" + entry("a", "F64", "4611686018427387904,4", "0,8") + "}", 8),
            "m.safetensors: tensor \"a\": F64[4611686018427387904, 4] takes more than 2^63 bytes, but its offsets 0 to "
            "8 cover 8");
  EXPECT_EQ(error_of("{" + entry("a", "F64", "2305843009213693952", "0,0") + "}", 0),
            "m.safetensors: tensor \"a\": F64[2305843009213693952] takes more than 2^63 bytes, but its offsets 0 to 0 "
            "cover 0")
      << "the overflow must be noticed, although the product is 0 in 64 bits";
  EXPECT_EQ(error_of("{" + a + "," + entry("b", "F32", "2", "4,12") + "}", 12),
            "m.safetensors: tensors \"a\" and \"b\" overlap: 4 is below 8");
  EXPECT_EQ(error_of("{" + a + "," + entry("b", "F32", "2", "0,8") + "}", 8),
            "m.safetensors: tensors \"a\" and \"b\" overlap: 0 is below 8");
  EXPECT_EQ(error_of("{" + a + "," + entry("b", "F32", "2", "12,20") + "}", 20),
            "m.safetensors: bytes 8 to 12 before tensor \"b\" belong to no tensor");
  EXPECT_EQ(error_of("{" + entry("a", "F32", "1", "4,8") + "}", 8),
            "m.safetensors: bytes 0 to 4 before tensor \"a\" belong to no tensor");
  EXPECT_EQ(
      error_of("{" + entry("a", "F32", "1", "9223372036854775804,9223372036854775807") + "}", 8),
      "m.safetensors: tensor \"a\": its offsets 9223372036854775804 to 9223372036854775807 are not a range of the 8 "
      "bytes after the header");
}

TEST(Safetensors, TypesHaveTheSizesOfTheFormat) {
  const std::vector<std::string> by_size[] = {{"BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"},
                                              {"I16", "U16", "F16", "BF16"},
                                              {"I32", "U32", "F32"},
                                              {"F64", "I64", "U64", "C64"}};
  for (int power = 0; power < 4; ++power)
    for (const std::string& type : by_size[power]) {
      const int bytes = 1 << power;
      EXPECT_EQ(error_of("{" + entry("a", type, "3", cat("0,", 3 * bytes)) + "}", 3 * bytes), "no error") << type;
      std::vector<WeightEntry> single = {{"a", type, {3}}};
      print_weight_header(single, {});
      EXPECT_EQ(single[0].end, 3 * bytes) << type;
    }
}

TEST(Safetensors, InvalidHeadersAreRejected) {
  const std::string a = entry("a", "U8", "", "0,1");
  const std::pair<std::string, std::string> invalid_headers[] = {
      {"", "the header does not begin with '{'"},
      {"  {}", "the header does not begin with '{'"},
      {"[]", "the header does not begin with '{'"},
      {"{", "the header: invalid JSON at byte "},
      {"{} x", "the header: invalid JSON at byte "},
      {"{\"a\xff\":1}", "the header: invalid JSON at byte "},
      {"{" + a + "," + a + "}", "tensors \"a\" and \"a\" overlap"},
      {"{\"a\":1}", "header, key \"a\": unexpected number"},
      {"{\"a\":\"x\"}", "header, key \"a\": unexpected string"},
      {"{\"a\":[]}", "header, key \"a\": unexpected list"},
      {"{\"a\":null}", "header, key \"a\": expected a string or a 64-bit integer"},
      {"{\"a\":{}}", "tensor \"a\": missing key dtype"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[]}}", "tensor \"a\": missing key data_offsets"},
      {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", "tensor \"a\": dtype: duplicate key"},
      {"{\"a\":{\"type\":\"U8\"}}", "tensor \"a\": type: unknown key"},
      {"{\"a\":{\"shape\":\"2\"}}", "tensor \"a\": shape: unexpected string"},
      {"{\"a\":{\"shape\":{}}}", "tensor \"a\": shape: unexpected object"},
      {"{\"a\":{\"shape\":[[1]]}}", "tensor \"a\": shape: unexpected list"},
      {"{\"a\":{\"shape\":[{}]}}", "tensor \"a\": shape: unexpected object"},
      {"{\"a\":{\"shape\":[-1]}}", "tensor \"a\": shape: a number must not be negative, got -1"},
      {"{\"a\":{\"shape\":[1.5]}}", "tensor \"a\": shape: expected a string or a 64-bit integer"},
      {"{\"a\":{\"shape\":[18446744073709551615]}}", "tensor \"a\": shape: expected a string or a 64-bit integer"},
      {"{" + entry("a", "U8", "", "0") + "}", "tensor \"a\": data_offsets: expected two numbers, begin and end; got 1"},
      {"{" + entry("a", "U8", "", "0,1,1") + "}",
       "tensor \"a\": data_offsets: expected two numbers, begin and end; got 3"},
      {"{" + entry("a", "U7", "", "0,1") + "}", "tensor \"a\": unknown dtype \"U7\"; expected one of: BOOL, U8, I8, "},
      {"{\"__metadata__\":{\"a\":1}}", "__metadata__ \"a\": unexpected number"},
      {"{\"__metadata__\":{\"a\":{}}}", "__metadata__ \"a\": unexpected object"},
      {"{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", "__metadata__ \"a\": duplicate key"},
      {"{\"__metadata__\":{},\"__metadata__\":{}}", "header, key \"__metadata__\": duplicate key"},
  };
  for (const auto& [text, message] : invalid_headers)
    EXPECT_THAT(error_of(text, 1), HasSubstr("m.safetensors: " + message)) << text;
  const std::string empty = entry("a", "U8", "0", "0,0");
  EXPECT_EQ(error_of("{" + empty + "," + empty + "}", 0), "m.safetensors: tensor \"a\" occurs twice")
      << "a duplicate name must be rejected even if no bytes overlap";
  EXPECT_THAT(error_of("{\"a\xff\":1}", 0), HasSubstr("last read: '\"a?'")) << "a message must be valid UTF-8";
  std::string long_name;
  for (int i = 0; i < 60; ++i) long_name += "\xc3\xa4";
  EXPECT_THAT(error_of("{\"x" + long_name + "\":1}", 0),
              HasSubstr("key \"x" + long_name.substr(0, 98) + "\": unexpected number"))
      << "the name must not be cut within a character";
  std::string sizes = "0";
  for (int i = 0; i < 64; ++i) sizes += ",0";
  EXPECT_THAT(error_of("{" + entry("a", "U8", sizes, "0,0") + "}", 0), HasSubstr("shape: more than 64 numbers"));
  EXPECT_THAT(error_of("{\"a\":" + std::string(1'000'000, '['), 0), HasSubstr("unexpected list"))
      << "deep nesting must not overflow the stack";
}

TEST(Safetensors, APrintedHeaderParsesToTheSameEntries) {
  std::vector<WeightEntry> entries = {
      {"w", "F64", {3, 2}}, {"a \"b\"\n\xc3\xa4", "F32", {}}, {"c", "BOOL", {0, 4}}, {"d", "BOOL", {3}}};
  const WeightNotes notes = {{"format", "karez"}, {"x\\", "\"\t"}};
  const std::string head = print_weight_header(entries, notes);
  EXPECT_EQ(entries[3].begin, 52);
  EXPECT_EQ(entries[3].end, 55);
  const std::int64_t bytes = static_cast<std::int64_t>(head.size()) + 55;
  EXPECT_EQ(head.size() % 8, 0u) << "the tensors must be aligned";
  ASSERT_EQ(weight_header_bytes(head.substr(0, 8), bytes, "m") + 8, static_cast<std::int64_t>(head.size()));
  const WeightHeader header = parse_weight_header(head.substr(8), bytes, "m");
  EXPECT_EQ(header.entries, entries);
  EXPECT_EQ(header.notes, notes);
  std::vector<WeightEntry> single = {{"w", "F32", {2}}};
  EXPECT_EQ(print_weight_header(single, {}).substr(8),
            "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}  ");
  std::vector<WeightEntry> bad = {{"__metadata__", "F32", {}}};
  EXPECT_THROW(print_weight_header(bad, {}), Error);
  bad = {{"a\xff", "F32", {}}};
  EXPECT_THROW(print_weight_header(bad, {}), Error);
}

TEST(Safetensors, ChecksumsAreStoredAsNotesAndParsedIntoEntries) {
  std::vector<WeightEntry> entries = {{"w", "F64", {3, 2}}, {"c", "BOOL", {0, 4}}, {"d", "BOOL", {3}}};
  const std::string without_checksums = print_checked_header(entries, {{"k", "v"}});
  entries[0].checksum = 0x123456789abcdef0, entries[1].checksum = 0, entries[2].checksum = 7;
  const std::string head = print_checked_header(entries, {{"k", "v"}});
  EXPECT_EQ(head.size(), without_checksums.size())
      << "the lengths must be equal, because the first header is overwritten";
  EXPECT_THAT(
      head,
      HasSubstr("\"karez.checksums\":\"123456789abcdef0 0000000000000000 0000000000000007\",\"karez.header\":\""));
  const std::int64_t bytes = static_cast<std::int64_t>(head.size()) + 51;
  const WeightHeader header = parse_weight_header(head.substr(8), bytes, "m");
  EXPECT_EQ(header.entries, entries);
  EXPECT_EQ(header.notes, (WeightNotes{{"k", "v"}}));
  std::vector<WeightEntry> no_entries;
  const std::string empty = print_checked_header(no_entries, {});
  EXPECT_TRUE(parse_weight_header(empty.substr(8), static_cast<std::int64_t>(empty.size()), "m").entries.empty());
}

TEST(WeightIndex, AnIndexNamesFilesInItsOwnFolder) {
  const auto index = parse_weight_index(R"({"metadata": {"total_size": 8, "weight_map": {"deep": 1}, "l": [[1]]},
                                            "weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}, "more": null})",
                                        "m.index.json");
  EXPECT_EQ(index, (std::map<std::string, std::string>{{"a", "m-1.safetensors"}, {"b", "m-2.safetensors"}}));
  const auto error = [](const std::string& text) {
    try {
      parse_weight_index(text, "m.index.json");
    } catch (const Error& error) { return std::string(error.what()); }
    return std::string("no error");
  };
  for (const char* path :
       {"../m", "/etc/passwd", "..", ".", "", "sub/m", "..\\\\m", "m\\u0000.safetensors", "a/../../m"})
    EXPECT_THAT(error(std::string("{\"weight_map\":{\"a\":\"") + path + "\"}}"),
                HasSubstr("m.index.json: weight_map, \"a\": "))
        << path;
  EXPECT_EQ(error(R"({"weight_map":{"a":"../m"}})"),
            "m.index.json: weight_map, \"a\": \"../m\" is not a file in the folder of the index");
  EXPECT_EQ(error(R"({"weight_map":{"a":1}})"), "m.index.json: weight_map, \"a\": not a file name");
  EXPECT_EQ(error(R"({"weight_map":{"a":{}}})"), "m.index.json: weight_map, \"a\": not a file name");
  EXPECT_EQ(error(R"({"weight_map":{"a":"m","a":"n"}})"), "m.index.json: weight_map: \"a\" occurs twice");
  EXPECT_EQ(error(R"({"weight_map":{},"weight_map":{}})"), "m.index.json: weight_map occurs twice");
  EXPECT_EQ(error(R"({"weight_map":[]})"), "m.index.json: it has no object \"weight_map\"");
  EXPECT_EQ(error(R"({"metadata":{"weight_map":{}}})"), "m.index.json: it has no object \"weight_map\"");
  EXPECT_EQ(error("[]"), "m.index.json: it has no object \"weight_map\"");
}

}  // namespace
}  // namespace karez::data
