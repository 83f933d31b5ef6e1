// For tests: golden texts, compared line by line; a failure shows only the lines that differ.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace karez::base {

// For EXPECT_TRUE(same_lines(print(graph), R"(...)")). A longest common subsequence decides which lines stand on both sides; of the others
// "-" is a golden line that is missing and "+" one that came instead, each with its number in its own text:
//   - 3: %2 = relu(%1)
//   + 3: %2 = tanh(%1)
inline ::testing::AssertionResult same_lines(std::string_view got, std::string_view golden) {
  if (got == golden) return ::testing::AssertionSuccess();
  const auto a = split(golden, '\n'), b = split(got, '\n');
  std::vector<std::vector<int>> common(a.size() + 1, std::vector<int>(b.size() + 1, 0));  // of the lines from i and from j on
  for (std::size_t i = a.size(); i-- > 0;)
    for (std::size_t j = b.size(); j-- > 0;) common[i][j] = a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  ::testing::AssertionResult failure = ::testing::AssertionFailure();
  failure << "lines differ (- golden, + got):\n";
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) ++i, ++j;
    else if (j == b.size() || (i < a.size() && common[i + 1][j] >= common[i][j + 1])) failure << "- " << i + 1 << ": " << a[i] << "\n", ++i;
    else failure << "+ " << j + 1 << ": " << b[j] << "\n", ++j;
  }
  return failure;
}

}  // namespace karez::base
