// Tests of golden texts and pinned numbers: passes, failure messages and records for an update.
#include "karez/base/test_golden.h"
#include "karez/base/test_golden_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace karez::base {
namespace {

TEST(SameLines, EqualTextsPass) {
  EXPECT_TRUE(same_lines("", ""));
  EXPECT_TRUE(same_lines("a\nb\n", "a\nb\n"));
}

TEST(SameLines, OnlyTheLinesThatDifferAreShown) {
  auto message_of = [](std::string_view got, std::string_view golden) {
    const ::testing::AssertionResult result = same_lines(got, golden);
    EXPECT_FALSE(result);
    return std::string(result.message());
  };
  const std::string head = "lines differ (- golden, + got):\n";
  EXPECT_EQ(message_of("a\nx\nc\n", "a\nb\nc\n"), head + "- 2: b\n+ 2: x\n");
  EXPECT_EQ(message_of("a\nc\n", "a\nb\nc\n"), head + "- 2: b\n");
  EXPECT_EQ(message_of("new\na\nb\nc", "a\nb\nc"), head + "+ 1: new\n");
  EXPECT_EQ(message_of("a", "a\n"), head + "- 2: \n") << "a missing end of line is a difference too";
}

TEST(Golden, APinnedNumberThatDiffersShowsBothNumbers) {
  EXPECT_TRUE(pinned(3, 3));
  EXPECT_STREQ(pinned(4, 3).message(), "expected 3, got 4; if this is intended, run ./dev test --update");
  EXPECT_TRUE(pinned_at_most(2, 3));
  EXPECT_TRUE(pinned_at_most(3, 3));
  EXPECT_STREQ(pinned_at_most(4L, 3).message(),
               "expected at most 3, got 4; if this is intended, run ./dev test --update");
  EXPECT_TRUE(pinned_at_least(1.5, 1.5));
  EXPECT_STREQ(pinned_at_least(1.25, 1.5).message(),
               "expected at least 1.5, got 1.25; if this is intended, run ./dev test --update");
}

// The record that a test of this file writes to the folder: kind, line, sizes, file and both texts.
TEST(Golden, InUpdateModeBothTextsAreRecordedInsteadOfAFailure) {
  const auto folder = std::filesystem::temp_directory_path() / cat("karez-golden-", ::getpid());
  std::filesystem::create_directory(folder);
  ::setenv("KAREZ_UPDATE", folder.c_str(), 1);
  const auto location = SourceLocation::here();
  const bool text = static_cast<bool>(golden("new\n", "old")), count = static_cast<bool>(pinned_at_most(12, 7));
  ::unsetenv("KAREZ_UPDATE");
  std::ifstream in(folder / std::to_string(::getpid()), std::ios::binary);
  const std::string recorded{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(text);
  EXPECT_TRUE(count);
  const auto line = location.line + 1;
  EXPECT_EQ(recorded, cat("golden ", line, " 3 4 ", location.file, "\noldnew\n\n", "pinned_at_most ", line, " 1 2 ",
                          location.file, "\n712\n"));
}

TEST(Golden, AGoldenFileThatDiffersIsNamed) {
  const std::string path = "karez/base/test_golden_file.h";
  std::ifstream in(source_folder() / path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_TRUE(golden_file(text, path));
  const ::testing::AssertionResult result = golden_file(text + "more", path);
  EXPECT_FALSE(result);
  EXPECT_NE(std::string(result.message()).find(path + " is out of date"), std::string::npos);
}

TEST(Golden, WithoutUpdateModeNothingIsRecorded) {
  ::setenv("KAREZ_UPDATE", "", 1);
  EXPECT_FALSE(golden("new", "old"));
  ::setenv("KAREZ_UPDATE", "/nowhere/at/all", 1);
  EXPECT_FALSE(golden("new", "old")) << "a record that cannot be written makes the test fail";
  ::unsetenv("KAREZ_UPDATE");
}

}  // namespace
}  // namespace karez::base
