// Tests of lines of text: line ends, positions, limits, text that is not UTF-8, and skipped lines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/base/test_error.h"
#include "karez/data/formats/test_records.h"
#include "karez/data/stages/sequential_reader.h"
#include "karez/data/test_folder.h"

namespace karez::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ReadRecords lines(const std::string& text, FileOptions options = {}, std::size_t piece = 1 << 20) {
  options.open = memory_files({{"a.txt", text}}, piece);
  return read_records(from_text({"a.txt"}, options));
}

TEST(FromText, LinesEndWithANewlineOrTheFile) {
  for (std::size_t piece : {1, 2, 3, 7, 1000}) {
    EXPECT_THAT(lines("one\ntwo\r\n\nfour", {}, piece).records, ElementsAre("\"one\"", "\"two\"", "\"\"", "\"four\""));
    EXPECT_THAT(lines("a\r\r\n\rb\n\xef\xbb\xbf", {}, piece).records,
                ElementsAre("\"a\r\"", "\"\rb\"", "\"\xef\xbb\xbf\""));
    EXPECT_THAT(lines("\n\n", {}, piece).records, ElementsAre("\"\"", "\"\""));
    EXPECT_THAT(lines("one\r", {}, piece).records, ElementsAre("\"one\r\""));
    EXPECT_THAT(lines("", {}, piece).records, IsEmpty());
  }
}

TEST(FromText, AByteOrderMarkIsDroppedAtTheBeginningOnly) {
  for (std::size_t piece : {1, 100}) {
    EXPECT_THAT(lines("\xef\xbb\xbfone\n\xef\xbb\xbftwo\n", {}, piece).records,
                ElementsAre("\"one\"", "\"\xef\xbb\xbftwo\""));
    EXPECT_THAT(lines("\xef\xbb\xbf", {}, piece).records, IsEmpty());
  }
}

TEST(FromText, ALineThatIsNotUtf8NamesFileLineAndByte) {
  for (std::size_t piece : {1, 5, 1000}) {
    EXPECT_EQ(lines("one\nt\xc3\xa4\xffx\n", {}, piece).error,
              "a.txt: line 2 at byte 4: the text is not UTF-8: invalid byte 0xff at byte 7");
    EXPECT_EQ(lines("\xc3", {}, piece).error,
              "a.txt: line 1 at byte 0: the text is not UTF-8: invalid byte 0xc3 at byte 0");
    EXPECT_THAT(lines("ok\n\xed\xa0\x80", {}, piece).error, HasSubstr("line 2 at byte 3")) << "a surrogate";
    EXPECT_THAT(lines("\xc0\x80", {}, piece).error, HasSubstr("0xc0 at byte 0")) << "an overlong form";
  }
}

TEST(FromText, ALineMayHaveTheMaximumLength) {
  FileOptions options;
  options.max_record_bytes = 4;
  for (std::size_t piece : {1, 2, 1000}) {
    EXPECT_THAT(lines("1234\n1234\r\n1234", options, piece).records, ElementsAre("\"1234\"", "\"1234\"", "\"1234\""));
    EXPECT_THAT(lines("1234\n12345\n", options, piece).error, HasSubstr("a.txt: line 2 at byte 5: the line has"));
    EXPECT_THAT(lines("12345", options, piece).error, HasSubstr("line 1 at byte 0: the line has"));
    EXPECT_THAT(lines("1234567\n", options, piece).error,
                HasSubstr("line 1 at byte 0: the line has more than 4 bytes"));
  }
}

TEST(FromText, SkippedLinesAreCountedAndReportedOnceInAnEpoch) {
  for (std::size_t piece : {1, 3, 1000}) {
    std::vector<SkippedRecords> reports;
    FileOptions options;
    options.on_error = OnError::skip;
    options.max_record_bytes = 5;
    options.report = [&](const SkippedRecords& skipped) { reports.push_back(skipped); };
    options.open = memory_files({{"a", "one\n\xff\ntoo long for it\nfour\n"}, {"b", "\xfe\nend"}}, piece);
    EXPECT_THAT(read_records(from_text({"a", "b"}, options)).records, ElementsAre("\"one\"", "\"four\"", "\"end\""));
    ASSERT_EQ(reports.size(), 4u) << "the whole epoch, and the rest after each of three records";
    for (const SkippedRecords& report : reports) EXPECT_EQ(report.count, 3);
    EXPECT_EQ(reports[0].first_error, "a: line 2 at byte 4: the text is not UTF-8: invalid byte 0xff at byte 4");
  }
}

TEST(FromText, RecordsKeepTheirNumbersIfOthersAreSkipped) {
  FileOptions options;
  options.on_error = OnError::skip;
  options.report = [](const SkippedRecords&) {};
  options.open = memory_files({{"a", "one\n\xff\nthree\n"}});
  SequentialReader reader(from_text({"a"}, options));
  reader.start({3, nullptr});
  EXPECT_EQ(reader.next()->index, 0);
  const Element third = *reader.next();
  EXPECT_EQ(third.index, 2);
  EXPECT_EQ(third.epoch, 3);
  EXPECT_FALSE(reader.next().has_value());
}

TEST(FromText, FilesOfAFolderAreReadInOrder) {
  const TestFolder folder;
  folder.put("b.txt", "3\n4"), folder.put("a.txt", "1\n2\n"), folder.put("c.txt", ""), folder.put("d.txt", "5");
  const Dataset dataset = from_text({folder.path("*.txt")});
  EXPECT_THAT(read_records(dataset).records, ElementsAre("\"1\"", "\"2\"", "\"3\"", "\"4\"", "\"5\""));
  EXPECT_EQ(dataset.size(), std::nullopt);
  EXPECT_THAT(dataset.text(), ::testing::MatchesRegex("from_text\\(4 files with hash [0-9a-f]{16}\\)\n"));
  EXPECT_THAT(error_of([&] { from_text({folder.path("*.csv")}); }), HasSubstr("from_text: no file matches"));
  EXPECT_THAT(error_of([&] { from_text({}); }), HasSubstr("from_text: at least one path or pattern is needed"));
}

TEST(FromText, ASecondReaderAndARestartAreIndependent) {
  FileOptions options;
  options.open = memory_files({{"a", "1\n2\n3\n"}});
  const Dataset dataset = from_text({"a"}, options);
  SequentialReader first(dataset), second(dataset);
  first.start(), second.start();
  EXPECT_EQ(print_element(*first.next()), "\"1\"");
  EXPECT_EQ(print_element(*first.next()), "\"2\"");
  EXPECT_EQ(print_element(*second.next()), "\"1\"");
  first.start({1, nullptr});
  EXPECT_EQ(print_element(*first.next()), "\"1\"");
  EXPECT_EQ(print_element(*second.next()), "\"2\"");
}

TEST(FromText, ADamagedStateIsAnError) {
  FileOptions options;
  options.open = memory_files({{"a", "1\n2\n3\n"}});
  const Dataset dataset = from_text({"a"}, options);
  for (const char* state : {"(0 0 0 0)", "(2 0 0 0 0)", "(-1 0 0 0 0)", "(0 -1 0 0 0)", "(0 0 -1 0 0)", "(1 1 0 0 0)",
                            "(0 0 0 -1 0)", "(0 0 0 0 -1)", "(0 0 0 0 0 -)"}) {
    SequentialReader reader(dataset);
    EXPECT_THAT(error_of([&] {
                  reader.start({0, parse_stream_state(state)});
                }),
                HasSubstr("the state of stage from_text"))
        << state;
  }
}

TEST(FromText, OptionsAreChecked) {
  FileOptions options;
  options.open = memory_files({{"a", ""}});
  options.max_record_bytes = 0;
  EXPECT_EQ(error_of([&] { from_text({"a"}, options); }), "from_text: max_record_bytes must be at least 1, got 0");
  options.max_record_bytes = 1, options.max_file_bytes = -1;
  EXPECT_EQ(error_of([&] { from_text({"a"}, options); }), "from_text: max_file_bytes must be at least 0, got -1");
}

TEST(FromText, AFileThatDoesNotExistAnyMoreIsAnErrorOrIsSkipped) {
  const TestFolder folder;
  folder.put("a", "1\n"), folder.put("b", "2\n");
  FileOptions options;
  std::vector<std::string> errors;
  options.report = [&](const SkippedRecords& skipped) { errors.push_back(skipped.first_error); };
  const Dataset raise = from_text({folder.path("*")}, options);
  options.on_error = OnError::skip;
  const Dataset skip = from_text({folder.path("*")}, options);
  std::remove(folder.path("a").c_str());
  EXPECT_THAT(read_records(raise).error, HasSubstr("No such file"));
  EXPECT_THAT(read_records(skip).records, ElementsAre("\"2\""));
  EXPECT_THAT(errors, ElementsAre(HasSubstr("No such file"), HasSubstr("resumed after it")));
}

// After this many bytes the stream fails.
class FailingStream : public ByteStream {
 public:
  explicit FailingStream(std::string bytes) : bytes_(std::move(bytes)) {}
  std::size_t read(std::span<std::uint8_t> out) override {
    require(ErrorKind::data, !bytes_.empty(), "the disk is broken");
    const std::size_t count = std::min(bytes_.size(), out.size());
    std::copy_n(bytes_.begin(), count, out.begin());
    bytes_.erase(0, count);
    return count;
  }

 private:
  std::string bytes_;
};

TEST(FromText, AnErrorOfTheStreamEndsItsFile) {
  FileOptions options;
  options.on_error = OnError::skip;
  options.report = [](const SkippedRecords& skipped) {
    EXPECT_EQ(skipped.count, 2);
    EXPECT_EQ(skipped.first_error, "the disk is broken");
  };
  options.open = [](const std::string&, std::int64_t) {
    return std::make_unique<FailingStream>("one\n\"two\"\n\"thr");
  };
  const auto first = [](const Dataset& dataset) {
    SequentialReader reader(dataset);
    reader.start();
    std::int64_t count = 0;
    while (reader.next()) ++count;
    return count;
  };
  EXPECT_EQ(first(from_text({"a", "b"}, options)), 4);
  EXPECT_EQ(first(from_csv({"a", "b"}, {}, options)), 2);
  options.open = [](const std::string&, std::int64_t) { return std::make_unique<FailingStream>("1\n\"two\"\n\"thr"); };
  EXPECT_EQ(first(from_jsonl({"a", "b"}, {}, options)), 4);
  options.open = [](const std::string&, std::int64_t) {
    return std::make_unique<FailingStream>(tfrecord_file({"1", "2"}) + "x");
  };
  EXPECT_EQ(first(from_tfrecord({"a", "b"}, {}, options)), 4);
}

TEST(ListFiles, ElementsArePathsAndEachRankReadsItsFiles) {
  const TestFolder folder;
  for (const char* name : {"a", "b", "c", "d", "e"}) folder.put(name, cat(name, "1\n", name, "2\n"));
  const auto rank = [&](std::int64_t index, bool parallel) {
    return list_files({folder.path("*")})
        .shard(2, index)
        .interleave([](const Element& e) { return from_text({path_of(e)}); }, {.cycle = 2, .parallel = parallel});
  };
  EXPECT_THAT(read_records(rank(0, false)).records,
              ElementsAre("\"a1\"", "\"c1\"", "\"a2\"", "\"c2\"", "\"e1\"", "\"e2\""));
  EXPECT_THAT(read_records(rank(1, false)).records, ElementsAre("\"b1\"", "\"d1\"", "\"b2\"", "\"d2\""));
  EXPECT_THAT(error_of([] { path_of(element(HostArray::of<float>({1}, {1}))); }), HasSubstr("path_of: expected"));
}

}  // namespace
}  // namespace karez::data
