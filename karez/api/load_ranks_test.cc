// Tests of loads by several ranks: files of equal contents on each of them, or nothing changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>

#include "karez/api/ranks/test_ranks.h"
#include "karez/api/test_texts.h"
#include "karez/data/weight_writer.h"
#include "karez/karez.h"

namespace karez {
namespace {
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct LoadOfRanks : ::testing::Test {
  const std::string folder = ::testing::TempDir() + "karez-load-ranks-" + std::to_string(::getpid());
  LoadOfRanks() { std::filesystem::create_directories(folder); }
  ~LoadOfRanks() override { std::filesystem::remove_all(folder); }

  std::string made(const std::string& name, double value) const {
    const std::string path = folder + "/" + name;
    data::WeightWriter writer(path, {{"w", "F64", {2}}}, {{"format", "karez"}});
    const double values[] = {value, value};
    writer.write(std::as_bytes(std::span(values)));
    writer.commit();
    return path;
  }

  // The error of each rank's load, and the value of w after it.
  struct RankResults {
    std::vector<std::string> texts;
    std::vector<double> values;
  };
  RankResults load_on_ranks(bool used_before, const std::function<std::string(int rank)>& path) const {
    RankResults out{std::vector<std::string>(2), std::vector<double>(2)};
    on_ranks(2, [&](const Ranks& here) {
      World world({.ranks = here});
      Parameter w("w", {DType::f64, {2}}, constant_init(1));
      auto f = compile(world.mesh("d=2"), [&](Tensor x) { return sum(w * x); });
      if (used_before) f(1.0).wait();
      const auto at = static_cast<std::size_t>(here.rank);
      if (const std::string name = path(here.rank); !name.empty())
        out.texts[at] = error_of([&] { world.load(name, {.parameters = {w}}); });
      out.values[at] = f(1.0).item();
    });
    return out;
  }
};

TEST_F(LoadOfRanks, AcceptsFilesOfEqualContentsUnderAnyNames) {
  for (const bool used : {false, true}) {
    const std::string paths[] = {made("a", 5), made("b", 5)};
    const RankResults all = load_on_ranks(used, [&](int rank) { return paths[rank]; });
    EXPECT_THAT(all.texts, Each("no error"));
    EXPECT_THAT(all.values, Each(10));
  }
}

TEST_F(LoadOfRanks, ChangesNothingIfFilesDiffer) {
  for (const bool used : {false, true}) {
    const std::string paths[] = {made("a", 5), made("b", 6)};
    const RankResults all = load_on_ranks(used, [&](int rank) { return paths[rank]; });
    EXPECT_THAT(all.texts,
                Each(AllOf(HasSubstr("ranks 0 and 1 differ in a load"), HasSubstr("files of equal contents"))));
    EXPECT_THAT(all.values, Each(2));
  }
}

TEST_F(LoadOfRanks, ChangesNothingIfOneRankHasNoFileOrDoesNotLoad) {
  const std::string good = made("a", 5);
  for (const bool used : {false, true})
    for (const std::string& other : {folder + "/none", std::string()}) {
      const RankResults all = load_on_ranks(used, [&](int rank) { return rank == 0 ? good : other; });
      EXPECT_THAT(all.texts[0], HasSubstr("rank 0 requests a load"));
      EXPECT_THAT(all.texts[0], HasSubstr("but rank 1 is at "));
      if (!other.empty()) EXPECT_THAT(all.texts[1], HasSubstr("none"));
      EXPECT_THAT(all.values, Each(2));
    }
}

}  // namespace
}  // namespace karez
