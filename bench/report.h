// Parses the option --json FILE, writes JSON and computes medians, for all benchmarks.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "bench/namespace.h"
#include "karez/base/error.h"

namespace karez::bench {

// Returns FILE of `--json FILE`, or "" without the option. For other arguments, prints the usage and ends the program
// with exit code 64.
inline std::string json_option(int count, char** words) {
  std::string file;
  for (int i = 1; i < count; ++i) {
    if (std::string(words[i]) == "--json" && i + 1 < count) {
      file = words[++i];
    } else {
      std::fprintf(stderr, "usage: %s [--json FILE], got '%s'\n", words[0], words[i]);
      std::exit(64);
    }
  }
  return file;
}

inline void write_json(const std::string& file, const std::string& text) {
  if (file.empty()) return;
  std::ofstream out(file);
  out << text << "\n" << std::flush;
  require(ErrorKind::data, out.good(), "cannot write '", file, "'");
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace karez::bench
