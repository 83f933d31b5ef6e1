// The lines in which two texts differ.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/namespace.h"

namespace karez::tools {

struct LineChange {
  bool added = false;    // in the second text alone; else in the first alone
  std::size_t line = 0;  // its number there, from 1
  std::string text;
  bool operator==(const LineChange&) const = default;
};

// The fewest lines to take out and put in; what stays is a longest common subsequence. Time is the product of the
// lengths that are left when equal lines at both ends are cut off, space is their sum (Hirschberg, "A linear space
// algorithm for computing maximal common subsequences", 1975).
std::vector<LineChange> line_diff(std::string_view first, std::string_view second);

}  // namespace karez::tools
