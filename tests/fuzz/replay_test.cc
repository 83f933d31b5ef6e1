// Replays every seed of every fuzz target, unchanged and with bytes removed, duplicated or changed, so that faults that
// a fuzzer has found do not return.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "karez/base/test_source.h"
#include "tests/fuzz/targets.h"

namespace karez::tests {
namespace {
namespace fs = std::filesystem;

std::vector<fs::path> seeds_of(const FuzzTarget& target) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(base::source_folder() / "tests/fuzz/seeds" / target.name))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Replay : public ::testing::TestWithParam<FuzzTarget> {
 protected:
  // Runs the target; any exception, or more than 20 s, is a failure.
  void replay(const std::string& bytes, const std::string& label) {
    auto begin = std::chrono::steady_clock::now();
    try {
      GetParam().run(bytes);
    } catch (const InvariantViolation& violation) {
      ADD_FAILURE() << label << ": " << violation.invariant;
    } catch (const std::exception& error) { ADD_FAILURE() << label << ": " << error.what(); }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << label;
  }
};

TEST_P(Replay, EverySeedIsAcceptedOrRejected) {
  std::vector<fs::path> seeds = seeds_of(GetParam());
  EXPECT_GE(seeds.size(), 3u);
  for (const fs::path& path : seeds) replay(read(path), path.filename());
}

TEST_P(Replay, DamagedSeedsAreAcceptedOrRejected) {
  const unsigned seed = 1;
  std::mt19937 random(seed);
  for (const fs::path& path : seeds_of(GetParam())) {
    const std::string seed_bytes = read(path);
    if (seed_bytes.empty()) continue;
    for (int trial = 0; trial < 40; ++trial) {
      std::string bytes = seed_bytes;
      std::size_t at = random() % bytes.size(), count = 1 + random() % 8;
      switch (random() % 4) {
        case 0: bytes.resize(at); break;
        case 1: bytes.erase(at, count); break;
        case 2: bytes.insert(at, bytes.substr(random() % bytes.size(), 8 * count)); break;
        default: bytes[at] = static_cast<char>(random());
      }
      replay(bytes,
             path.filename().string() + " damaged, seed " + std::to_string(seed) + ", trial " + std::to_string(trial));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Replay, ::testing::ValuesIn(fuzz_targets),
                         [](const auto& target) { return std::string(target.param.name); });

}  // namespace
}  // namespace karez::tests
