// Reads files of blocks to pack, in the format of the public MiniMalloc set: the first line names columns, and each
// other line is a block.
//
//   id,lower,upper,size
//   b1,0,3,4              4 bytes, in use at times 0, 1 and 2
//
// Columns may be in any order, and other columns are ignored. The capacity is the last number in the file's name:
// A.1048576.csv.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/namespace.h"
#include "karez/base/error.h"
#include "karez/base/text.h"
#include "karez/solve/packing.h"

namespace karez::bench {

// Parses the blocks in `text`. Throws Error (kind data) with `name` and the line: "blocks.csv:3: upper 4 is not above
// lower 4".
inline std::vector<solve::Interval> read_blocks(std::string_view text, const std::string& name) {
  constexpr std::string_view required_columns[] = {"lower", "upper", "size"};
  std::vector<solve::Interval> blocks;
  std::vector<std::size_t> column;  // by required name
  std::size_t columns = 0, line = 0;
  auto check = [&](bool ok, const auto&... parts) {
    base::require(base::ErrorKind::data, ok, name, ":", line, ": ", parts...);
  };
  for (const std::string& row : base::split(text, '\n')) {
    ++line;
    if (base::trim(row).empty()) continue;
    std::vector<std::string> cells = base::split(base::trim(row), ',');
    for (std::string& cell : cells) cell = base::trim(cell);
    if (columns == 0) {
      columns = cells.size();
      for (std::string_view column_name : required_columns) {
        auto cell = std::find(cells.begin(), cells.end(), column_name);
        check(cell != cells.end(), "no column '", column_name, "' in '", base::trim(row), "'");
        check(std::count(cells.begin(), cells.end(), column_name) == 1, "two columns are called '", column_name, "'");
        column.push_back(static_cast<std::size_t>(cell - cells.begin()));
      }
      continue;
    }
    check(cells.size() == columns, cells.size(), " cells, but the first line names ", columns, " columns");
    long value[3];
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string& cell = cells[column[i]];
      auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value[i]);
      check(error != std::errc::result_out_of_range, required_columns[i], " ", cell, " is beyond 64 bits");
      check(error == std::errc() && end == cell.data() + cell.size(), required_columns[i], " '", cell,
            "' is not a whole number");
    }
    check(value[1] > value[0], "upper ", value[1], " is not above lower ", value[0]);
    check(value[2] >= 0, "size ", value[2], " is negative");
    blocks.push_back({value[0], value[1], value[2]});
  }
  line = std::max<std::size_t>(line, 1);
  check(columns > 0, "the file is empty; the first line must name the columns lower, upper and size");
  check(!blocks.empty(), "the file lists no block");
  return blocks;
}

// Returns 1048576 for "folder/A.1048576.csv"; empty if the part before the last '.' does not end in a separate number.
inline std::optional<long> capacity_in_name(std::string_view path) {
  std::vector<std::string> parts = base::split(path.substr(path.find_last_of('/') + 1), '.');
  if (parts.size() < 3) return std::nullopt;
  const std::string& digits = parts[parts.size() - 2];
  long value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value <= 0) return std::nullopt;
  return value;
}

// Returns the first two blocks that are in use at the same time and share bytes, or nothing.
inline std::optional<std::pair<std::size_t, std::size_t>> overlap(const std::vector<solve::Interval>& blocks,
                                                                  const std::vector<long>& offset) {
  for (std::size_t i = 0; i < blocks.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const bool together = blocks[i].begin < blocks[j].end && blocks[j].begin < blocks[i].end;
      if (together && offset[i] < offset[j] + blocks[j].size && offset[j] < offset[i] + blocks[i].size)
        return std::pair(j, i);
    }
  return std::nullopt;
}

}  // namespace karez::bench
