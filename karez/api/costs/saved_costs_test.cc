// Tests that a saved cost table is found by later worlds, and that a table that does not fit is reported and not used.
#include "karez/api/costs/saved_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "karez/api/costs/shipped_costs.h"
#include "karez/api/ranks/test_ranks.h"
#include "karez/api/state/world_state.h"
#include "karez/base/test_error.h"
#include "karez/device/cpu_budget.h"
#include "karez/karez.h"

namespace karez {
namespace {
namespace fs = std::filesystem;
using base::error_of;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Sets a variable of the environment and restores its old value; nullptr removes it.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old_value = std::getenv(name)) old_value_ = old_value;
    set(value);
  }
  ~ScopedVariable() { set(old_value_ ? old_value_->c_str() : nullptr); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  void set(const char* value) { value == nullptr ? ::unsetenv(name_) : ::setenv(name_, value, 1); }
  const char* name_;
  std::optional<std::string> old_value_;
};

// An empty data folder in which worlds look for saved tables.
struct SavedCostsTest : ::testing::Test {
  std::string folder = fs::temp_directory_path() / cat("karez-saved-costs-", getpid());
  ScopedVariable data{"XDG_DATA_HOME", folder.c_str()}, costs{"KAREZ_COSTS", nullptr};
  device::Processor processor = device::processor();
  std::string path = saved_costs_path(processor);

  SavedCostsTest() { fs::remove_all(folder); }
  ~SavedCostsTest() override { fs::remove_all(folder); }

  CostTable table(std::string origin = "measured here", int team = 64) const {
    CostTable out;
    out.origin = std::move(origin);
    for (int threads : {1, team}) {
      out.sets.push_back({processor.isa, threads, {}});
      out.sets.back().rates.fill(threads * 1e9);
    }
    return out;
  }
  std::string text() const {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& text) const { std::ofstream(path) << text; }
  std::string defect() const { return read_saved_costs(path, processor, 2).defect; }
};

std::string origin_of(const World& world) { return world.mesh("").world->tables.costs.origin; }

TEST_F(SavedCostsTest, AWorldPlansWithTheSavedTableUnlessTheProgramOrTheEnvironmentNamesAnother) {
  EXPECT_EQ(origin_of(World()), costs_for(processor).origin) << "there is no saved table yet";
  save_costs(path, table(), processor);
  const World world;
  EXPECT_EQ(origin_of(world), cat("measured here, saved in ", path));
  auto f = compile(world.mesh(""), [](Tensor x) { return relu(x); });
  f.compile({{DType::f32, {4}}});
  EXPECT_THAT(f.summary(), HasSubstr(cat("\ncosts: measured here, saved in ", path, "\n")));
  EXPECT_EQ(world.mesh("").world->tables.costs.sets, table().sets);
  EXPECT_EQ(origin_of(World({.costs = CostTable()})), "those of WorldOptions::costs");
  EXPECT_THAT(origin_of(World({.cost_file = "default"})), StartsWith(sbp::default_origin));
  const ScopedVariable none("KAREZ_COSTS", "default");
  EXPECT_THAT(origin_of(World()), StartsWith(sbp::default_origin));
}

TEST_F(SavedCostsTest, TheFileIsInTheDataFolderAndIsNamedAfterTheProcessor) {
  const device::Processor amd{"AMD EPYC, family 25 model 17", "avx2", 2};
  EXPECT_EQ(saved_costs_path(amd), folder + "/karez/costs-amd-epyc-family-25-model-17.txt");
  const ScopedVariable home("HOME", "/home/me"), relative("XDG_DATA_HOME", "no/path/from/the/root");
  EXPECT_EQ(saved_costs_path({"Some CPU @ 2.6GHz", "avx2", 2}),
            "/home/me/.local/share/karez/costs-some-cpu-2-6ghz.txt");
  EXPECT_EQ(saved_costs_path({"../../x", "avx2", 2}), "/home/me/.local/share/karez/costs-x.txt");
  const ScopedVariable homeless("HOME", nullptr);
  EXPECT_EQ(saved_costs_path(amd), "");
  EXPECT_EQ(origin_of(World()), costs_for(processor).origin);
}

TEST_F(SavedCostsTest, ASavedTableIsReadAsItWasWrittenAndReplaced) {
  save_costs(path, table("first"), processor);
  save_costs(path, table("second"), processor);
  const SavedCosts saved = read_saved_costs(path, processor, 2);
  EXPECT_EQ(saved.defect, "");
  EXPECT_EQ(saved.table, table("second"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder + "/karez"), {}), 1) << "no temporary file may be left";
  EXPECT_EQ(read_saved_costs("", processor, 2).table, std::nullopt);
  EXPECT_EQ(CostTable::parse(text()), table("second")) << "WorldOptions::cost_file accepts the file too";
}

TEST_F(SavedCostsTest, ATableThatDoesNotFitIsReportedAndNotUsed) {
  save_costs(path, table(), processor);
  const std::string good = text();
  EXPECT_EQ(defect(), "");
  write(good.substr(0, good.size() / 2));
  EXPECT_EQ(defect(), "is incomplete or was modified after it was saved");
  write(std::string(good).replace(good.find("alpha"), 5, "alphb"));
  EXPECT_EQ(defect(), "is incomplete or was modified after it was saved");
  for (const char* other : {"", "\n", "# karez costs x 1\n", "link alpha=1 beta=1\n", "# karez costs"}) {
    write(other);
    EXPECT_EQ(defect(), "was not written by `karez doctor --kernels --save`") << other;
  }
  write(std::string(good).replace(good.find("costs 1"), 7, "costs 2"));
  EXPECT_EQ(defect(), "has version 2 of the format, and this program reads version 1");
  save_costs(path, table(), {"another CPU", processor.isa, 3});
  EXPECT_EQ(defect(), cat("is for another machine (another CPU; 3 CPUs) than this one (", processor.name, "; ",
                          processor.cpus, processor.cpus == 1 ? " CPU)" : " CPUs)"));
  save_costs(path, table(), {processor.name, processor.isa, processor.cpus + 1});
  EXPECT_THAT(defect(), StartsWith("is for another machine ("));
  save_costs(path, CostTable(), processor);
  EXPECT_EQ(defect(), cat("has no rates for the instruction set ", processor.isa));
  save_costs(path, table("", 1), processor);
  EXPECT_THAT(defect(), StartsWith("cannot be parsed: costs: line "));
  CostTable one_thread = table();
  one_thread.sets.pop_back();
  save_costs(path, one_thread, processor);
  EXPECT_EQ(defect(), "has rates for teams of at most 1 threads, and this process may use 2 cores");
  EXPECT_EQ(read_saved_costs(path, processor, 1).defect, "");
  fs::remove(path), fs::create_directory(path);
  EXPECT_EQ(defect(), "is not a regular file");
}

TEST_F(SavedCostsTest, TheWarningAndTheSummaryNameTheDefect) {
  save_costs(path, table(), {"another CPU", processor.isa, 3});
  const std::string reason =
      cat("the saved cost table ", path, " is not used, because it is for another machine (another CPU; 3 CPUs)");
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(origin_of(World()), StartsWith(cat(costs_for(processor).origin, "; ", reason)));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr(reason));
  EXPECT_THAT(log, EndsWith("; `karez doctor --kernels --save` replaces it\n"));
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(origin_of(World({.costs = CostTable()})), Not(HasSubstr("saved")));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), IsEmpty()) << "the file must not be read";
}

// Rank 0 alone reads the saved table, so that ranks on other processors do not warn about theirs.
TEST_F(SavedCostsTest, AllRanksPlanWithTheSavedTableOfRank0) {
  save_costs(path, table(), processor);
  std::atomic<int> count{0};
  on_ranks(2, [&](Ranks job) {
    World world({.ranks = job});
    count += origin_of(world) == cat("measured here, saved in ", path);
    world.barrier();
  });
  EXPECT_EQ(count, 2);
}

TEST_F(SavedCostsTest, AFolderThatCannotBeWrittenIsAnError) {
  std::ofstream(folder) << "a file";
  EXPECT_THAT(error_of([&] { save_costs(path, table(), processor); }),
              StartsWith(cat("cannot save the cost table in ", path, ": ")));
  EXPECT_EQ(origin_of(World()), costs_for(processor).origin);
}

}  // namespace
}  // namespace karez
