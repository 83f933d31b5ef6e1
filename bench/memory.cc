// Do blocks with known lifetimes fit in a given capacity? Packs the blocks of the named files, and prints the gap
// between the peak and its lower bound.
//
//   bench_memory [--json FILE] [--capacity BYTES] [--work N] FILE…
//   bench_memory --models     memory of the plans of train_step's models relative to live values (memory_models.h)
//
// A FILE is a table of blocks (memory_file.h); its name contains the capacity, as in A.1048576.csv, unless --capacity
// is given. There are no default files: the public set (google/minimalloc, benchmarks/challenging) is not part of this
// project. --work limits the number of blocks that the search visits, so that every machine finds the same packing; the
// time is printed, and more than ten seconds miss the target. A ratio is the peak over the capacity. Exit code 1 if a
// file does not fit in time, 2 for wrong usage, 77 for an invalid file.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "bench/memory_file.h"
#include "bench/memory_models.h"

namespace karez::bench {
namespace {
constexpr double max_seconds = 10;

struct Options {
  std::vector<std::string> files;
  long capacity = 0, work = 1'500'000'000;
  const char* json = nullptr;
  bool models = false;
};

struct Row {
  std::string name;
  std::size_t blocks = 0;
  long live = 0, capacity = 0, greedy = 0;  // bytes; live: the maximum at one time, greedy: the peak without a search
  solve::Packing packed = {};
  double seconds = 0;
  bool fits() const { return packed.peak <= capacity; }
};

Row pack_file(const std::string& file, const Options& options) {
  std::ifstream in(file);
  base::require(base::ErrorKind::data, in.good(), file, ": cannot be read");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const std::vector<solve::Interval> blocks = read_blocks(text, file);
  const std::optional<long> capacity = options.capacity > 0 ? options.capacity : capacity_in_name(file);
  base::require(capacity.has_value(), file, ": no capacity in the name, as in A.1048576.csv; use --capacity BYTES");
  Row row{.name = file.substr(file.find_last_of('/') + 1), .blocks = blocks.size(), .capacity = *capacity};
  const solve::Packing greedy = solve::pack(blocks, {.search_work = 0});
  row.live = greedy.lower_bound;
  row.greedy = greedy.peak;
  const auto begin = std::chrono::steady_clock::now();
  row.packed = solve::pack(blocks, {.search_work = options.work, .capacity = row.capacity});
  row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (auto pair = overlap(blocks, row.packed.offset))
    base::fail(file, ": blocks ", pair->first, " and ", pair->second, " share bytes");
  return row;
}

// Returns "optimal", or the gap to the lower bound of the peak.
std::string optimality(const Row& row) {
  char text[64] = "optimal";
  const solve::Packing& p = row.packed;
  if (!row.fits() && p.lower_bound > row.capacity)
    std::snprintf(text, sizeof text, "cannot fit: needs %ld", p.lower_bound);
  else if (!p.optimal)
    std::snprintf(text, sizeof text, "gap <= %.2f %%",
                  100.0 * static_cast<double>(p.peak - p.lower_bound) / static_cast<double>(p.lower_bound));
  return text;
}

int run(const Options& options) {
  std::vector<Row> rows;
  double max_ratio = 0;
  bool missed = false;
  std::printf("%-28s %6s %12s %12s %12s %12s %5s %8s  %s\n", "blocks to be packed, bytes", "blocks", "live", "capacity",
              "greedy", "peak", "fits", "seconds", "proof or gap");
  for (const std::string& file : options.files) {
    const Row& row = rows.emplace_back(pack_file(file, options));
    const bool over_time = row.seconds > max_seconds;
    std::printf("%-28s %6zu %12ld %12ld %12ld %12ld %5s %8.2f  %s%s\n", row.name.c_str(), row.blocks, row.live,
                row.capacity, row.greedy, row.packed.peak, row.fits() ? "yes" : "NO", row.seconds,
                optimality(row).c_str(), over_time ? "; late" : "");
    std::fflush(stdout);
    max_ratio = std::max(max_ratio, static_cast<double>(row.packed.peak) / static_cast<double>(row.capacity));
    missed |= over_time || !row.fits();
  }
  std::printf("memory: worst ratio %.3f (target 1.000)\n", max_ratio);
  if (options.json != nullptr) {
    std::ofstream out(options.json);
    out << "{\"name\": \"memory\", \"worst\": " << max_ratio << ", \"target\": 1.0, \"rows\": [";
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Row& row = rows[i];
      out << (i ? ", " : "") << "{\"name\": " << base::quote(row.name) << ", \"blocks\": " << row.blocks
          << ", \"live\": " << row.live << ", \"capacity\": " << row.capacity << ", \"greedy\": " << row.greedy
          << ", \"peak\": " << row.packed.peak << ", \"lower_bound\": " << row.packed.lower_bound
          << ", \"seconds\": " << row.seconds << "}";
    }
    out << "]}\n";
  }
  return missed ? 1 : 0;
}

// Parses the arguments; returns nullopt if they are invalid.
std::optional<Options> parse_options(int argc, char** argv) {
  Options options;
  auto positive = [](const char* text, long& value) {
    const char* end = text + std::strlen(text);
    auto [stop, error] = std::from_chars(text, end, value);
    return error == std::errc() && stop == end && value > 0;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!base::starts_with(word, "--")) {
      options.files.emplace_back(word);
      continue;
    }
    if (word == "--models") {
      options.models = true;
      continue;
    }
    const char* value = i + 1 < argc ? argv[++i] : nullptr;
    bool valid = value != nullptr;
    if (word == "--json") options.json = value;
    else if (word == "--capacity") valid = valid && positive(value, options.capacity);
    else valid = valid && word == "--work" && positive(value, options.work);
    if (!valid) return std::nullopt;
  }
  if (options.files.empty() != options.models) return std::nullopt;
  return options;
}

}  // namespace
}  // namespace karez::bench

int main(int argc, char** argv) {
  using namespace karez;
  const auto options = bench::parse_options(argc, argv);
  if (!options) {
    std::fprintf(stderr, "usage: %s [--json FILE] [--capacity BYTES] [--work N] FILE…, or --models\n", argv[0]);
    return 2;
  }
  try {
    return options->models ? bench::pack_models() : bench::run(*options);
  } catch (const base::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return base::exit_code(error.kind);
  }
}
