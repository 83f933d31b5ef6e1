// Finds the lines that differ between two texts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/namespace.h"

namespace karez::tools {

struct LineChange {
  bool added = false;    // true: only in the second text; false: only in the first
  std::size_t line = 0;  // number of the line in that text, from 1
  std::string text;
  bool operator==(const LineChange&) const = default;
};

// Returns the smallest set of lines to delete and insert; the other lines are a longest common subsequence. Equal lines
// at the beginning and the end are skipped; for the rest, time is proportional to the product of the two lengths, and
// space to their sum (Hirschberg, "A linear space algorithm for computing maximal common subsequences", 1975).
std::vector<LineChange> line_diff(std::string_view first, std::string_view second);

}  // namespace karez::tools
