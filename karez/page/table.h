// Tables and numbers as text.
#pragma once

#include <string>
#include <vector>

#include "karez/page/namespace.h"

namespace karez::page {

// Rows of cells, two blanks before each; columns are as wide as their widest cell. Numbers are right-aligned; the last
// column is not padded.
std::string table(const std::vector<std::vector<std::string>>& rows);

std::string fixed(double value, int digits);  // 12.345 -> "12.3"
std::string microseconds(double seconds);     // "812.3"
std::string percent(double share);            // 0.5 -> "50.0 %"

}  // namespace karez::page
