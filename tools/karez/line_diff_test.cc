// Tests of line differences, whose sizes are compared with the results of a recursive search.
#include "tools/karez/line_diff.h"

#include <gtest/gtest.h>

#include "karez/base/philox.h"
#include "karez/base/text.h"

namespace karez::tools {
namespace {

std::string text_of(const std::vector<LineChange>& changes) {
  return join(changes, " ", [](const LineChange& c) { return cat(c.added ? "+" : "-", c.line, c.text); });
}

TEST(LineDiff, EqualTextsHaveNoDifference) {
  EXPECT_EQ(text_of(line_diff("", "")), "");
  EXPECT_EQ(text_of(line_diff("a\nb\n", "a\nb\n")), "");
}

TEST(LineDiff, AChangedLineIsDeletedAndInsertedWithItsNumbers) {
  EXPECT_EQ(text_of(line_diff("a\nb\nc\n", "a\nx\nc\n")), "-2b +2x");
  EXPECT_EQ(text_of(line_diff("a\nb\nc\n", "x\na\nb\ny\nc\n")), "+1x +4y");
  EXPECT_EQ(text_of(line_diff("a\nb\nc\n", "b\n")), "-1a -3c");
  EXPECT_EQ(text_of(line_diff("a\nb\n", "")), "-1a -2b");
}

TEST(LineDiff, AMovedLineIsDeletedOnceAndInsertedOnce) {
  EXPECT_EQ(text_of(line_diff("a\nb\nc\nd\n", "b\nc\nd\na\n")), "-1a +4a");
}

// Finds the length of the longest common subsequence by recursion.
int longest(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return 0;
  if (a[0] == b[0]) return 1 + longest(a.substr(1), b.substr(1));
  return std::max(longest(a.substr(1), b), longest(a, b.substr(1)));
}

TEST(LineDiff, TheDifferenceIsMinimalAndTurnsTheFirstTextIntoTheSecond) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    auto word = [&](std::uint64_t stream) {
      std::string out;
      for (std::uint64_t i = 0, n = philox_word(seed, stream, 0) % 9; i < n; ++i)
        out += static_cast<char>('a' + philox_word(seed, stream, i + 1) % 3);
      return out;
    };
    auto lines = [](const std::string& letters) {
      std::string out;
      for (char c : letters) out += cat(std::string(1, c), "\n");
      return out;
    };
    const std::string a = word(0), b = word(1);
    const auto changes = line_diff(lines(a), lines(b));
    EXPECT_EQ(changes.size(), a.size() + b.size() - 2 * static_cast<std::size_t>(longest(a, b))) << a << " " << b;
    std::string result, remaining = a;
    for (const LineChange& c : changes)
      if (!c.added) {
        ASSERT_EQ(c.text, a.substr(c.line - 1, 1));
        remaining[c.line - 1] = '.';
      }
    for (char c : remaining)
      if (c != '.') result += c;
    for (const LineChange& c : changes)
      if (c.added) result.insert(c.line - 1, c.text);
    EXPECT_EQ(result, b) << a;
  }
}

}  // namespace
}  // namespace karez::tools
