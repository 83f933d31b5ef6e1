// Tests of WebDataset: samples, names, links, sizes, truncation and damage, against a writer of tar headers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <limits>

#include "karez/base/test_error.h"
#include "karez/base/text.h"
#include "karez/data/formats/test_records.h"

namespace karez::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// An entry of a tar file in the format ustar. kind: '0' file, '1' hard link, '2' link, '3' device, '5' folder.
std::string tar_entry(const std::string& name, const std::string& content, char kind = '0', std::int64_t size = -1) {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  char digits[16];
  put(0, name), put(100, "0000644"), put(108, "0000000"), put(116, "0000000");
  std::snprintf(digits, sizeof digits, "%011llo",
                static_cast<unsigned long long>(size < 0 ? static_cast<std::int64_t>(content.size()) : size));
  put(124, digits), put(136, "00000000000"), put(148, "        ");
  header[156] = kind;
  if (kind == '1' || kind == '2') put(157, "target.txt");
  put(257, "ustar"), put(263, "00");
  unsigned sum = 0;
  for (unsigned char byte : header) sum += byte;
  std::snprintf(digits, sizeof digits, "%06o", sum);
  put(148, digits), header[154] = '\0', header[155] = ' ';
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}
const std::string end_mark(1024, '\0');

ReadRecords samples(const std::string& tar, FileOptions options = {}, std::size_t piece = 1 << 20) {
  options.open = memory_files({{"a.tar", tar}}, piece);
  return read_records(from_webdataset({"a.tar"}, options), false);
}

TEST(FromWebdataset, ConsecutiveFilesWithOneNameAreASample) {
  const std::string tar = tar_entry("d/", "", '5') + tar_entry("d/1.jpg", "image") + tar_entry("d/1.seg.png", "") +
                          tar_entry("d/1.cls", "7") + tar_entry("d/2.jpg", std::string(1000, 'x')) +
                          tar_entry("d/README", "ignored") + tar_entry(".hidden", "ignored") +
                          tar_entry("e.b/1.jpg", "other folder");
  for (const std::string& end : {end_mark, std::string(), std::string(512, '\0'), end_mark + std::string(9000, '\0')})
    for (std::size_t piece : {512, 700, 1 << 20}) {
      const ReadRecords got = samples(tar + end, {}, piece);
      EXPECT_EQ(got.error, "");
      EXPECT_THAT(got.records, ElementsAre(R"({__key__: "d/1", cls: "7", jpg: "image", seg.png: ""})",
                                           cat(R"({__key__: "d/2", jpg: ")", std::string(1000, 'x'), "\"}"),
                                           R"({__key__: "e.b/1", jpg: "other folder"})"));
    }
  EXPECT_THAT(samples("").records, IsEmpty());
  EXPECT_THAT(samples(end_mark).records, IsEmpty());
  EXPECT_EQ(samples(end_mark).error, "");
}

TEST(FromWebdataset, NamesMayContainAnyUtf8) {
  EXPECT_THAT(samples(tar_entry("\xc3\xa4/\xe2\x82\xac.txt", "x")).records,
              ElementsAre("{__key__: \"\xc3\xa4/\xe2\x82\xac\", txt: \"x\"}"));
  EXPECT_THAT(samples(tar_entry("\xff.txt", "x")).error, HasSubstr("UTF-8"));
}

TEST(FromWebdataset, EntriesThatAreNotFilesOfTheFolderAreErrors) {
  const std::string good = tar_entry("1.txt", "one"), last = tar_entry("3.txt", "three") + end_mark;
  const std::pair<std::string, std::string> cases[] = {
      {tar_entry("../2.txt", "x"), "the entry \"../2.txt\" is outside of the archive's folder"},
      {tar_entry("a/../2.txt", "x"), "the entry \"a/../2.txt\" is outside of the archive's folder"},
      {tar_entry("/2.txt", "x"), "the entry \"/2.txt\" is outside of the archive's folder"},
      {tar_entry("../", "", '5'), "the entry \"../\" is outside of the archive's folder"},
      {tar_entry("2.txt", "", '2'), "the entry \"2.txt\" is a link, which is not followed"},
      {tar_entry("2", "", '2'), "the entry \"2\" is a link, which is not followed"},
      {tar_entry("2.txt", "", '1'), "the entry \"2.txt\" is a link, which is not followed"},
      {tar_entry("2.txt", "", '3'), "the entry \"2.txt\" is not a regular file"},
      {tar_entry("2.txt", "", '6'), "the entry \"2.txt\" is not a regular file"},
      {tar_entry("2.txt", "x") + tar_entry("2.txt", "y"), "the record has two files with the extension \"txt\""},
      {tar_entry("2.__key__", "x"), "the record has two files with the extension \"__key__\""},
      {tar_entry("2.jpg", "x") + tar_entry("2.txt", "", '2') + tar_entry("2.cls", ""), "is a link"},
  };
  for (const auto& [entry, fault] : cases) {
    const ReadRecords got = samples(good + entry + last);
    EXPECT_THAT(got.records, ElementsAre(R"({__key__: "1", txt: "one"})"));
    EXPECT_THAT(got.error, HasSubstr(cat("a.tar: record 1 at byte 1024: "))) << fault;
    EXPECT_THAT(got.error, HasSubstr(fault));
    std::vector<SkippedRecords> reports;
    FileOptions options;
    options.on_error = OnError::skip;
    options.report = [&](const SkippedRecords& skipped) { reports.push_back(skipped); };
    EXPECT_THAT(samples(good + entry + last, options).records,
                ElementsAre(R"({__key__: "1", txt: "one"})", R"({__key__: "3", txt: "three"})"));
    EXPECT_EQ(reports.at(0).count, 1) << fault;
  }
}

TEST(FromWebdataset, SizesAreCheckedBeforeMemoryIsTaken) {
  const std::int64_t huge = (1ll << 33) - 1;  // the largest size of a ustar header
  EXPECT_THAT(
      samples(tar_entry("1.txt", "x", '0', huge)).error,
      HasSubstr(
          "a.tar: record 0 at byte 0: with the entry \"1.txt\", which has 8589934591 bytes, the record has more than"));
  FileOptions options;
  options.max_record_bytes = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(samples(tar_entry("1.txt", "x", '0', huge), options).error, HasSubstr("Truncated"));
  options.max_record_bytes = 10;
  const std::string tar = tar_entry("1.a", "12345") + tar_entry("1.b", "12345") + tar_entry("2.a", "12345678901") +
                          tar_entry("3.a", "123456") + tar_entry("3.b", "12345") + tar_entry("4.a", "x");
  EXPECT_THAT(samples(tar, options).records.size(), 1u);
  options.on_error = OnError::skip;
  options.report = [](const SkippedRecords& skipped) { EXPECT_EQ(skipped.count, 2); };
  EXPECT_THAT(samples(tar, options).records,
              ElementsAre(R"({__key__: "1", a: "12345", b: "12345"})", R"({__key__: "4", a: "x"})"));
}

TEST(FromWebdataset, EveryTruncationEndsAtASampleOrIsAnError) {
  const std::string tar = tar_entry("1.txt", "one") + tar_entry("2.txt", std::string(600, 'x'));
  for (std::size_t size = 0; size < tar.size(); size += 37) {
    const std::size_t complete = size < 1024 ? 0 : 1;  // samples whose files are complete
    const ReadRecords got = samples(tar.substr(0, size), {}, 100);
    if (size == 0) EXPECT_EQ(got.error, "");
    else if (size < 512) EXPECT_THAT(got.error, HasSubstr("a.tar: the archive cannot be read at byte 0")) << size;
    else EXPECT_THAT(got.error, HasSubstr(cat("a.tar: record ", complete, ": "))) << size;
    EXPECT_EQ(got.records.size(), complete) << size;
  }
}

TEST(FromWebdataset, ADamagedHeaderEndsTheFile) {
  std::string tar = tar_entry("1.txt", "one") + tar_entry("2.txt", "two") + tar_entry("3.txt", "three") + end_mark;
  tar[1024 + 3] ^= 1;
  EXPECT_THAT(samples(tar).records, ElementsAre(R"({__key__: "1", txt: "one"})"));
  EXPECT_THAT(samples(tar).error, HasSubstr("a.tar: record 1: the header of an entry cannot be read at byte 1024: "));
  EXPECT_THAT(samples("this is no tar file").error, HasSubstr("a.tar: the archive cannot be read at byte 0"));
  EXPECT_THAT(samples(std::string(5000, 'x')).error, HasSubstr("a.tar: the archive cannot be read at byte 0"));
  FileOptions options;
  options.on_error = OnError::skip;
  options.report = [](const SkippedRecords& skipped) { EXPECT_EQ(skipped.count, 1); };
  options.open = memory_files({{"a.tar", tar}, {"b.tar", tar_entry("4.txt", "four")}});
  EXPECT_THAT(read_records(from_webdataset({"a.tar", "b.tar"}, options)).records,
              ElementsAre(R"({__key__: "1", txt: "one"})", R"({__key__: "4", txt: "four"})"));
}

}  // namespace
}  // namespace karez::data
