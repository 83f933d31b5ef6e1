// Tests of loads by several ranks: either all ranks load files with equal contents, or nothing changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>

#include "karez/api/ranks/test_ranks.h"
#include "karez/api/testing/test_texts.h"
#include "karez/data/weight_writer.h"
#include "karez/karez.h"

namespace karez {
namespace {
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

struct LoadOfRanks : ::testing::Test {
  const std::string folder = ::testing::TempDir() + "karez-load-ranks-" + std::to_string(::getpid());
  LoadOfRanks() { std::filesystem::create_directories(folder); }
  ~LoadOfRanks() override { std::filesystem::remove_all(folder); }

  std::string write_weights(const std::string& name, double value) const {
    const std::string path = folder + "/" + name;
    data::WeightWriter writer(path, {{"w", "F64", {2}}}, {{"format", "karez"}});
    const double values[] = {value, value};
    writer.write(std::as_bytes(std::span(values)));
    writer.commit();
    return path;
  }

  // The error of the load on each rank, and the result of a function after the load.
  struct RankResults {
    std::vector<std::string> errors;
    std::vector<double> values;
  };
  RankResults load_on_ranks(bool used_before, const std::function<std::string(int rank)>& path) const {
    RankResults out{std::vector<std::string>(2), std::vector<double>(2)};
    on_ranks(2, [&](const Ranks& job) {
      World world({.ranks = job});
      Parameter w("w", {DType::f64, {2}}, constant_init(1));
      auto f = compile(world.mesh("d=2"), [&](Tensor x) { return sum(w * x); });
      if (used_before) f(1.0).wait();
      const auto rank_index = static_cast<std::size_t>(job.rank);
      if (const std::string name = path(job.rank); !name.empty())
        out.errors[rank_index] = error_of([&] { world.load(name, {.parameters = {w}}); });
      out.values[rank_index] = f(1.0).item();
    });
    return out;
  }
};

TEST_F(LoadOfRanks, FilesWithEqualContentsMayHaveDifferentNames) {
  for (const bool used : {false, true}) {
    const std::string paths[] = {write_weights("a", 5), write_weights("b", 5)};
    const RankResults results = load_on_ranks(used, [&](int rank) { return paths[rank]; });
    EXPECT_THAT(results.errors, Each("no error"));
    EXPECT_THAT(results.values, Each(10));
  }
}

TEST_F(LoadOfRanks, DifferentFilesChangeNothing) {
  for (const bool used : {false, true}) {
    const std::string paths[] = {write_weights("a", 5), write_weights("b", 6)};
    const RankResults results = load_on_ranks(used, [&](int rank) { return paths[rank]; });
    EXPECT_THAT(results.errors,
                Each(AllOf(HasSubstr("ranks 0 and 1 differ in a load"), HasSubstr("files with equal contents"))));
    EXPECT_THAT(results.values, Each(2));
  }
}

TEST_F(LoadOfRanks, ALoadThatFailsOrIsMissingOnOneRankChangesNothing) {
  const std::string valid_path = write_weights("a", 5);
  for (const bool used : {false, true})
    for (const std::string& other_path : {folder + "/none", std::string()}) {
      const RankResults results = load_on_ranks(used, [&](int rank) { return rank == 0 ? valid_path : other_path; });
      EXPECT_THAT(results.errors[0], HasSubstr("rank 0 requests a load"));
      EXPECT_THAT(results.errors[0], HasSubstr("but rank 1 is at "));
      if (!other_path.empty()) { EXPECT_THAT(results.errors[1], HasSubstr("none")); }
      EXPECT_THAT(results.values, Each(2));
    }
}

}  // namespace
}  // namespace karez
