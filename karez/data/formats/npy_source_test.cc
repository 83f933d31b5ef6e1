// Tests of the rows of .npy files: by index, as a stream, and files that do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "karez/base/test_error.h"
#include "karez/data/formats/test_records.h"
#include "karez/data/test_folder.h"

namespace karez::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string npy(const std::string& type, const std::string& shape, const std::string& content, char version = 1,
                const char* fortran = "False") {
  const std::string header = "{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
  std::string out = std::string("\x93NUMPY", 6) + version + '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) out += static_cast<char>(header.size() >> (8 * i) & 255);
  return out + header + content;
}
std::string numbers(std::initializer_list<std::int32_t> values) {
  std::string out;
  for (std::int32_t value : values) out += little_endian(value);
  return out;
}

TEST(FromNpy, RowsOfSeveralFilesAreReadByIndex) {
  const TestFolder folder;
  folder.put("a.npy", npy("<i4", "(2, 2)", numbers({1, 2, 3, 4})));
  folder.put("b.npy", npy("<i4", "(0, 2)", ""));
  folder.put("c.npy", npy("<i4", "(1, 2)", numbers({5, 6}), 2));
  const Dataset dataset = from_npy({folder.path("*.npy")});
  EXPECT_EQ(dataset.size(), 3);
  EXPECT_THAT(dataset.text(), HasSubstr(", 3 rows of i32[2])"));
  EXPECT_THAT(read_records(dataset).records, ElementsAre("i32[2](1 2)", "i32[2](3 4)", "i32[2](5 6)"));
  EXPECT_EQ(print_element(dataset.at(2, 1)), "i32[2](5 6)");
  EXPECT_EQ(dataset.at(2, 1).index, 2);
  EXPECT_EQ(dataset.at(2, 1).epoch, 1);
  folder.put("d.npy", npy("|u1", "(3,)", "xyz"));
  EXPECT_THAT(read_records(from_npy({folder.path("d.npy")})).records,
              ElementsAre("u8[](120)", "u8[](121)", "u8[](122)"));
}

TEST(FromNpy, MoreFilesThanAreKeptOpenCanBeRead) {
  const TestFolder folder;
  for (int i = 100; i < 170; ++i) folder.put(cat(i, ".npy"), npy("<i4", "(1,)", numbers({i})));
  const Dataset dataset = from_npy({folder.path("*.npy")});
  EXPECT_EQ(dataset.size(), 70);
  for (int i = 0; i < 70; ++i) EXPECT_EQ(print_element(dataset.at(i)), cat("i32[](", 100 + i, ")"));
}

TEST(FromNpy, FilesThatDoNotFitAreErrorsWhenTheDataSetIsMade) {
  const TestFolder folder;
  const auto error = [&](const std::string& file, std::int64_t max_record_bytes = 1000) {
    folder.put("a.npy", npy("<i4", "(1, 2)", numbers({1, 2})));
    folder.put("b.npy", file);
    FileOptions options;
    options.max_record_bytes = max_record_bytes;
    return error_of([&] { from_npy({folder.path("[ab].npy")}, options); });
  };
  EXPECT_EQ(error(npy("<i4", "(1, 2)", numbers({1, 2}))), "no error");
  EXPECT_THAT(error(npy("<i4", "(2, 2)", numbers({1, 2, 3}))), HasSubstr("b.npy: 2 rows of i32[2] take "));
  EXPECT_THAT(error(npy("<i4", "(1, 3)", numbers({1, 2, 3}))), HasSubstr("all files must have rows of one type"));
  EXPECT_THAT(error(npy("<i8", "(1, 2)", std::string(16, '\0'))), HasSubstr("all files must have rows of one type"));
  EXPECT_THAT(error(npy("<i4", "()", numbers({1}))), HasSubstr("the array has no rows, because it is a scalar"));
  EXPECT_THAT(error(npy("<i4", "(1, 2)", numbers({1, 2}), 1, "True")), HasSubstr("stored in Fortran order"));
  EXPECT_THAT(error(npy("<i4", "(4611686018427387904, 4611686018427387904)", "")), HasSubstr("overflows"));
  EXPECT_THAT(error(npy("<i4", "(1, 1000000)", "")), HasSubstr("a row has 4000000 bytes, more than the limit of 1000"));
  EXPECT_THAT(error(""), HasSubstr("b.npy: not a .npy file"));
  EXPECT_THAT(error("\x93NUMPY\x01"), HasSubstr("not a .npy file"));
  EXPECT_THAT(error(npy("<i4", "(1, 2)", "").substr(0, 30)), HasSubstr("the header should have "));
  EXPECT_THAT(error(std::string("\x93NUMPY\x02\0\xff\xff\xff\xff", 12)),
              HasSubstr("the header has 4294967295 bytes, more than the limit"));
}

TEST(FromNpy, AStreamHasTheSameRows) {
  FileOptions options;
  const std::string file = npy("<i4", "(3,)", numbers({1, 2, 3}));
  const auto rows = [&](const std::string& bytes, std::size_t piece = 100) {
    options.open = memory_files({{"a.npy", bytes}}, piece);
    return read_records(from_npy({"a.npy"}, options));
  };
  for (std::size_t piece : {1, 11, 1000})
    EXPECT_THAT(rows(file, piece).records, ElementsAre("i32[](1)", "i32[](2)", "i32[](3)"));
  EXPECT_THAT(rows(npy("<i4", "(3, 0)", "")).records, ElementsAre("i32[0]()", "i32[0]()", "i32[0]()"));
  EXPECT_EQ(rows(npy("<i4", "(0, 3)", "")).records.size(), 0u);
  EXPECT_THAT(rows(file + "x").error, HasSubstr("a.npy: bytes follow the last row, at byte "));
  for (std::size_t size = 0; size < file.size(); ++size)
    EXPECT_THAT(rows(file.substr(0, size)).error, HasSubstr("a.npy: ")) << size;
  EXPECT_EQ(rows(file.substr(0, file.size() - 5)).error,
            cat("a.npy: record 1 at byte ", file.size() - 8, ": the file ends after 3 of 4 bytes"));
}

}  // namespace
}  // namespace karez::data
