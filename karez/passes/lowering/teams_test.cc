// Tests of the teams pass: which calls get the team, and that nothing changes without measured costs of teams.
#include "karez/passes/lowering/teams.h"

#include <gtest/gtest.h>

#include "karez/passes/lowering/test_localise.h"

namespace karez::passes {
namespace {

// One thread does 1 operation per ns and accesses 1 byte per ns; a team of two does 2 operations, and no more bytes.
CostTable team_costs() {
  CostTable out;
  out.team_call = 1e-6;
  out.sets = {{"avx2", 1, {}}, {"avx2", 2, {}}};
  for (sbp::RateSet& set : out.sets) {
    set.rates.fill(1e9);
    set.rates[sbp::find_rate("matmul.square")] = set.team * 1e9;
    set.rates[sbp::find_rate("update.l2")] = set.team * 1e9;
  }
  return out.with_threads(2, 1);
}

// Prints the op and the number of threads of each call of device 0.
std::string teams(const Graph& graph, const CostTable& costs, int team = 2, const KernelCatalog* catalog = nullptr) {
  Compilation c = testing::compilation(graph);
  if (catalog != nullptr) c.catalog = catalog;
  c.options.costs = costs, c.options.team = team;
  run_passes(c, {"shard", "box", "order", "segment", "slots", "layout", "localise", "fuse", "teams"});
  std::string text;
  for (const LocalSegment& segment : c.local.segments)
    for (const LocalCall& call : segment.calls)
      if (segment.device == 0) text += cat(call.spec.op, " ", call.spec.team, "\n");
  return text;
}

Graph product(const char* mesh = "", std::int64_t rows = 64) {
  testing::LocaliseProgram p(mesh);
  p.output(build::exp(p.b, build::matmul(p.b, p.input("x", {rows, 256}), p.input("w", {256, 256}))));
  return p.graph;
}

TEST(Teams, ACallGetsTheTeamIfThatIsFasterByTheTable) {
  EXPECT_EQ(teams(product(), team_costs()), "matmul 2\npointwise 1\n");
  CostTable slow_start = team_costs();
  slow_start.team_call = 1;
  EXPECT_EQ(teams(product(), slow_start), "matmul 1\npointwise 1\n");
  EXPECT_EQ(teams(product(), team_costs(), 1), "matmul 1\npointwise 1\n") << "the program allows one thread per call";
}

// A product takes 8.4 ms on one thread and half of that on two, which need another 10 ms to start.
TEST(Teams, AGroupHasTheWorkOfAllItsCalls) {
  CostTable costs = team_costs();
  costs.team_call = 1e-2;
  for (const int products : {2, 4}) {
    testing::LocaliseProgram p("");
    const ValueId x = p.input("x", {64, 256});
    for (int i = 0; i < products; ++i) p.output(build::matmul(p.b, x, p.input(cat("w", i), {256, 256})), cat("y", i));
    EXPECT_EQ(teams(p.graph, costs), products == 2 ? "matmul 1\n" : "matmul 2\n");
  }
}

TEST(Teams, WithoutMeasuredCostsOfTeamsNothingChanges) {
  CostTable slow;
  slow.matmul_flops = 1e9, slow.memory_bytes = 1e9;
  EXPECT_EQ(teams(product(), slow), "matmul 2\npointwise 2\n") << "calls of more than 15 us get the team";
  EXPECT_EQ(teams(product(), CostTable()), "matmul 2\npointwise 1\n");
}

// The work of a device decides, also if a mesh splits the rows unevenly.
TEST(Teams, AllDevicesWithEqualPartsChooseTheSame) {
  Compilation c = testing::compilation(product("data=2, model=2", 66));
  c.options.costs = team_costs(), c.options.team = 2;
  run_passes(c, {"shard", "box", "order", "segment", "slots", "layout", "localise", "fuse", "teams"});
  std::map<std::string, int> team_of_call;
  for (const LocalSegment& segment : c.local.segments)
    for (const LocalCall& call : segment.calls) {
      const auto [first, is_new] = team_of_call.emplace(print(call.spec), call.spec.team);
      EXPECT_EQ(first->second, call.spec.team) << first->first;
    }
  EXPECT_GE(team_of_call.size(), 2u);
}

// A catalog whose kernel for matmul has another name on a team.
struct TeamCatalog : testing::AnyCatalog {
  std::optional<KernelChoice> find(const CallSpec& call) const override {
    auto choice = AnyCatalog::find(call);
    if (choice && call.op == "matmul") choice->kernel += call.team > 1 ? ".team" : ".alone";
    if (choice) choice->workspace = 100 * call.team;
    return choice;
  }
};

TEST(Teams, ACallKeepsItsKernelAndGetsTheWorkspaceOfItsTeam) {
  const TeamCatalog catalog;
  CostTable slow_start = team_costs();
  slow_start.team_call = 1;
  Compilation c = testing::compilation(product());
  c.catalog = &catalog, c.options.costs = team_costs(), c.options.team = 2;
  run_passes(c, {"shard", "box", "order", "segment", "slots", "layout", "localise"});
  for (const CostTable& costs : {team_costs(), slow_start}) {
    c.options.costs = costs;
    const LocalProgram chosen = choose_teams(c.local, *c.ops, catalog, c.options);
    for (std::size_t i = 0; i < chosen.segments.size(); ++i)
      for (std::size_t k = 0; k < chosen.segments[i].calls.size(); ++k) {
        const LocalCall &before = c.local.segments[i].calls[k], &after = chosen.segments[i].calls[k];
        EXPECT_EQ(after.kernel, before.kernel);
        EXPECT_EQ(after.workspace, 100 * after.spec.team);
        if (after.spec.op == "matmul") EXPECT_EQ(after.spec.team, before.spec.team) << "the kernel would change";
        else EXPECT_EQ(after.spec.team, 1);
      }
  }
}

}  // namespace
}  // namespace karez::passes
