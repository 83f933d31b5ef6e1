// Formats tables and numbers as text.
#include "karez/report/table.h"

#include <algorithm>
#include <cstdio>

namespace karez::report {
namespace {

bool is_number(const std::string& cell) {
  return !cell.empty() && ((cell[0] >= '0' && cell[0] <= '9') || (cell[0] == '-' && cell.size() > 1));
}

}  // namespace

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> width;
  for (const auto& row : rows) {
    width.resize(std::max(width.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  }
  std::string out;
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string gap(width[c] - row[c].size(), ' ');
      out += "  ";
      if (is_number(row[c])) out += gap + row[c];
      else out += row[c] + (c + 1 < row.size() ? gap : "");
    }
    out.erase(out.find_last_not_of(' ') + 1);
    out += "\n";
  }
  return out;
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string microseconds(double seconds) { return fixed(seconds * 1e6, 1); }

std::string percent(double share) { return fixed(share * 100, 1) + " %"; }

}  // namespace karez::report
