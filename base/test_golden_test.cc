// The comparison of golden texts: what it lets pass and what it shows.
#include "base/test_golden.h"

#include <gtest/gtest.h>

namespace karez::base {
namespace {

TEST(SameLines, EqualTextsPass) {
  EXPECT_TRUE(same_lines("", ""));
  EXPECT_TRUE(same_lines("a\nb\n", "a\nb\n"));
}

TEST(SameLines, OnlyTheLinesThatDifferAreShown) {
  auto shown = [](std::string_view got, std::string_view golden) {
    const ::testing::AssertionResult result = same_lines(got, golden);
    EXPECT_FALSE(result);
    return std::string(result.message());
  };
  const std::string head = "lines differ (- golden, + got):\n";
  EXPECT_EQ(shown("a\nx\nc\n", "a\nb\nc\n"), head + "- 2: b\n+ 2: x\n");
  EXPECT_EQ(shown("a\nc\n", "a\nb\nc\n"), head + "- 2: b\n");
  EXPECT_EQ(shown("new\na\nb\nc", "a\nb\nc"), head + "+ 1: new\n");
  EXPECT_EQ(shown("a", "a\n"), head + "- 2: \n") << "a missing end of line is a difference too";
}

}  // namespace
}  // namespace karez::base
