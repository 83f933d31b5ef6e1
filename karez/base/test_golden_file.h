// For tests: golden files, whose content the program generates and `./dev test --update` rewrites.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "karez/base/test_golden.h"
#include "karez/base/test_source.h"

namespace karez::base {

// EXPECT_TRUE(golden_file(text, "karez/ops/pointwise_build.h")): compares a text with a file of the source folder.
inline ::testing::AssertionResult golden_file(std::string_view got, const std::string& path) {
  std::ifstream in(source_folder() / path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (record_update("file", text, got, {path.c_str(), 1})) return ::testing::AssertionSuccess();
  ::testing::AssertionResult result = same_lines(got, text);
  if (!result) result << path << " is out of date; run ./dev test --update";
  return result;
}

}  // namespace karez::base
