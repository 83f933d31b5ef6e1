// Tests of which cost table a world uses, and of the line about the table in summary().
#include "karez/api/costs/shipped_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "karez/api/state/world_state.h"
#include "karez/base/test_error.h"
#include "karez/karez.h"

namespace karez {
namespace {
using ::testing::ContainsRegex;
using ::testing::StartsWith;

TEST(ShippedCosts, EachTableHasADateAndAllRatesFromOneThreadUp) {
  for (const ShippedCosts& shipped : all_shipped_costs()) {
    const CostTable table = CostTable::parse(shipped.text);
    ASSERT_FALSE(table.sets.empty()) << shipped.processor;
    EXPECT_THAT(table.origin, StartsWith(cat("measured on ", shipped.processor, ", ", table.sets[0].isa, ", on 20")));
    EXPECT_EQ(table.sets[0].team, 1);
    for (const RateSet& set : table.sets)
      for (std::size_t i = 0; i < rate_count; ++i)
        EXPECT_GT(set.rates[i], 1e8) << shipped.processor << " " << rate_name(i);
    EXPECT_EQ(costs_for({std::string(shipped.processor), table.sets[0].isa}), table.with_isa(table.sets[0].isa));
  }
}

TEST(ShippedCosts, TheCostsOfAnUnknownProcessorAreMarkedAsDefaults) {
  CostTable costs = costs_for({"a processor of 2040", "avx4096"});
  EXPECT_EQ(costs.origin,
            "defaults, not measured on any processor; `karez doctor --kernels --save` measures this one (a "
            "processor of 2040, avx4096)");
  costs.origin.clear();
  EXPECT_EQ(costs, CostTable());
}

std::string costs_line(const World& world) {
  auto f = compile(world.mesh(""), [](Tensor x) { return relu(x); });
  f.compile({{DType::f32, {4}}});
  const std::string summary = f.summary();
  const std::string line = summary.substr(summary.rfind("\ncosts: ") + 1);
  return line.substr(0, line.find('\n') + 1);
}

struct File {
  std::string path;
  explicit File(const std::string& text) {
    static int count = 0;
    path = std::filesystem::temp_directory_path() / cat("karez-costs-", getpid(), "-", ++count);
    std::ofstream(path) << text;
  }
  ~File() { std::filesystem::remove(path); }
  File(const File&) = delete;
};

// Sets KAREZ_COSTS, and a data folder without a saved table.
struct Environment {
  std::string old_value;
  explicit Environment(const std::string& value) {
    if (const char* current_value = std::getenv("KAREZ_COSTS")) old_value = current_value;
    ::setenv("KAREZ_COSTS", value.c_str(), 1);
    ::setenv("XDG_DATA_HOME", "/nowhere", 1);
  }
  ~Environment() { ::setenv("KAREZ_COSTS", old_value.c_str(), 1); }
  Environment(const Environment&) = delete;
};

TEST(ShippedCosts, ASummaryNamesTheTable) {
  const Environment none("");
  EXPECT_EQ(costs_line(World()), cat("costs: ", costs_for(device::processor()).origin, "\n"));
  EXPECT_EQ(costs_line(World({.costs = CostTable()})), "costs: those of WorldOptions::costs\n");
  EXPECT_EQ(costs_line(World({.cost_file = "default"})), cat("costs: ", sbp::origin_text(CostTable()), "\n"));
  const File named("origin \"measured by hand\"\nmemory_bytes=5\n");
  EXPECT_EQ(costs_line(World({.cost_file = named.path})), "costs: measured by hand\n");
}

TEST(ShippedCosts, AFileFromAnOlderVersionCanBeReadAndIsReported) {
  const File file(
      "# Measured by karez doctor: 3 ranks.\nlink alpha=1 beta=2\nlink @shm alpha=1 "
      "beta=2\nmatmul_flops=3\nconv_flops=4\nmemory_bytes=5\ncall=6\n");
  const World world({.cost_file = file.path});
  EXPECT_EQ(costs_line(world), cat("costs: those of ", file.path, "\n"));
  EXPECT_EQ(world.mesh("").world->tables.costs.seconds({WorkClass::memory, 0, 10}), 8);
}

TEST(ShippedCosts, TheEnvironmentSetsTheFileIfTheProgramDoesNot) {
  const File file("origin \"of the environment\"\n"), program("origin \"of the program\"\n");
  {
    const Environment set(file.path);
    EXPECT_EQ(costs_line(World()), "costs: of the environment\n");
    EXPECT_EQ(costs_line(World({.cost_file = program.path})), "costs: of the program\n");
  }
  const Environment none("/nowhere");
  EXPECT_EQ(error_of([] { World(); }), "cannot open the cost table '/nowhere'");
  EXPECT_THAT(costs_line(World({.cost_file = "default"})), StartsWith("costs: defaults, "));
}

TEST(ShippedCosts, RatesOfOtherInstructionSetsAreNotUsedAndThisIsReported) {
  const File file("origin \"of another machine\"\nrate other team 1 matmul.square=1e10\n");
  EXPECT_THAT(costs_line(World({.cost_file = file.path})),
              ContainsRegex("costs: of another machine; its rates are not for the instruction set [a-z0-9]+, so"));
}

// The cost of an operation depends on the number of threads in a team and on the number of devices per worker.
TEST(ShippedCosts, CostsDependOnTheTeamAndOnTheDevicesThatShareAWorker) {
  const std::string isa = device::processor().isa;
  CostTable costs;
  for (int team : {1, 2}) {
    costs.sets.push_back({isa, team, {}});
    costs.sets.back().rates[find_rate("matmul.square")] = 1e9 * team;
  }
  auto price = [&](int devices, int workers, int team, const char* mesh) {
    const World world({.devices = devices, .workers = workers, .team = team, .costs = costs});
    Graph graph;
    graph.meshes = {world.mesh(mesh).mesh};
    return world.mesh(mesh).world->compile_options(graph).costs.seconds({WorkClass::matmul, 1e9, 1, 64}) -
           CostTable().call;
  };
  EXPECT_NEAR(price(1, 1, 1, ""), 1, 1e-3);
  EXPECT_NEAR(price(1, 1, 2, ""), 0.5, 1e-3);
  EXPECT_NEAR(price(4, 1, 1, "d=4"), 4, 1e-3);
  EXPECT_NEAR(price(4, 1, 1, "d=2"), 2, 1e-3) << "only the two devices that the program uses share the worker";
}

TEST(ShippedCosts, LayoutSecondsIsTheSumOfThePlannersCosts) {
  CostTable costs;
  costs.call = 0, costs.matmul_flops = 1e3, costs.memory_bytes = 1e30;
  const World world({.costs = costs});
  auto f = compile(world.mesh(""), [](Tensor a, Tensor b) { return matmul(a, b); });
  f.compile({{DType::f32, {4, 5}}, {DType::f32, {5, 6}}});
  EXPECT_NEAR(f.layout_seconds(), 2 * 4 * 5 * 6 / 1e3, 1e-9);
}

}  // namespace
}  // namespace karez
