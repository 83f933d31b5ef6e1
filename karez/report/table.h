// Formats tables and numbers as text.
#pragma once

#include <string>
#include <vector>

#include "karez/report/namespace.h"

namespace karez::report {

// Formats rows of cells; two spaces precede each cell. Columns are as wide as their widest cell. Numbers are
// right-aligned; the last column is not padded.
std::string table(const std::vector<std::vector<std::string>>& rows);

std::string fixed(double value, int digits);  // 12.345 -> "12.3"
std::string microseconds(double seconds);     // "812.3"
std::string percent(double share);            // 0.5 -> "50.0 %"

}  // namespace karez::report
