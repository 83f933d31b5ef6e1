// For tests: golden texts and pinned numbers, which `./dev test --update` rewrites in their source. If a text differs,
// only the lines that differ are shown.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "karez/base/cat.h"
#include "karez/base/text.h"

namespace karez::base {

// Compares two computed texts: EXPECT_TRUE(same_lines(again, text)). Lines outside of the longest common subsequence
// are shown with their numbers: "-" marks a golden line, and "+" marks a computed line:
//   - 3: %2 = relu(%1)
//   + 3: %2 = tanh(%1)
inline ::testing::AssertionResult same_lines(std::string_view got, std::string_view golden) {
  if (got == golden) return ::testing::AssertionSuccess();
  const auto a = split(golden, '\n'), b = split(got, '\n');
  std::vector<std::vector<int>> common(a.size() + 1,
                                       std::vector<int>(b.size() + 1, 0));  // number of common lines from i and j on
  for (std::size_t i = a.size(); i-- > 0;)
    for (std::size_t j = b.size(); j-- > 0;)
      common[i][j] = a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  ::testing::AssertionResult failure = ::testing::AssertionFailure();
  failure << "lines differ (- golden, + got):\n";
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) ++i, ++j;
    else if (j == b.size() || (i < a.size() && common[i + 1][j] >= common[i][j + 1]))
      failure << "- " << i + 1 << ": " << a[i] << "\n", ++i;
    else failure << "+ " << j + 1 << ": " << b[j] << "\n", ++j;
  }
  return failure;
}

// The source line of a call, for use as a default argument: clang-tidy 14 cannot parse <source_location>.
struct SourceLocation {
  const char* file;
  unsigned line;
  static SourceLocation here(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};

// If KAREZ_UPDATE names a folder, a test does not compare the new text with the text in its source. Instead it writes
// both texts to that folder, for tools/testing/goldens.py. Returns whether it has written them.
inline bool record_update(const char* kind, std::string_view expected, std::string_view got, const SourceLocation& at) {
  const char* folder = std::getenv("KAREZ_UPDATE");
  if (folder == nullptr || *folder == '\0') return false;
  std::FILE* out = std::fopen(cat(folder, "/", ::getpid()).c_str(), "ab");
  if (out == nullptr) return false;
  const std::string text =
      cat(kind, " ", at.line, " ", expected.size(), " ", got.size(), " ", at.file, "\n", expected, got, "\n");
  const bool complete = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  return (std::fclose(out) == 0) && complete;
}

// EXPECT_TRUE(golden(print(graph), R"(...)")). A test helper that takes the text as an argument must also take `at` and
// pass it on.
inline ::testing::AssertionResult golden(std::string_view got, std::string_view text,
                                         SourceLocation at = SourceLocation::here()) {
  return record_update("golden", text, got, at) ? ::testing::AssertionSuccess() : same_lines(got, text);
}

// A pinned number of type T: `text_of` gives the text of its literal.
template <class T>
::testing::AssertionResult pinned_as(const char* kind, const char* relation, bool passes, T got, T expected,
                                     const SourceLocation& at) {
  const auto text_of = [](T value) {
    return std::is_integral_v<T> ? std::to_string(value) : number(static_cast<double>(value));
  };
  if (record_update(kind, text_of(expected), text_of(got), at) || passes) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "expected " << relation << text_of(expected) << ", got " << text_of(got)
                                       << "; if this is intended, run ./dev test --update";
}

// EXPECT_TRUE(pinned(cases, 39'530)): a count that must not change unnoticed.
template <class T>
::testing::AssertionResult pinned(T got, std::type_identity_t<T> expected, SourceLocation at = SourceLocation::here()) {
  return pinned_as("pinned", "", got == expected, got, expected, at);
}

// The same for a number that may improve unnoticed but must not get worse, such as the steps of a search or the bytes
// that it finds.
template <class T>
::testing::AssertionResult pinned_at_most(T got, std::type_identity_t<T> limit,
                                          SourceLocation at = SourceLocation::here()) {
  return pinned_as("pinned_at_most", "at most ", got <= limit, got, limit, at);
}
template <class T>
::testing::AssertionResult pinned_at_least(T got, std::type_identity_t<T> limit,
                                           SourceLocation at = SourceLocation::here()) {
  return pinned_as("pinned_at_least", "at least ", got >= limit, got, limit, at);
}

}  // namespace karez::base
