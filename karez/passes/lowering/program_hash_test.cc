// Tests of the program hash: what changes it and what does not.
#include "karez/passes/lowering/program_hash.h"

#include <gtest/gtest.h>

#include "karez/passes/lowering/test_emit.h"

namespace karez::passes {
namespace {

using testing::compiled;

TEST(Emit, TheProgramHashDependsOnTheProgramButNotOnPathsAndLines) {
  auto hash = [](auto change, CompileOptions options = {}) {
    Graph graph = testing::mlp_step(Mesh::parse("data=2"), {6, 9, 5}, 10);
    change(graph);
    Compilation c = testing::compilation(std::move(graph));
    c.options = options;
    compile(c);
    return c.plan.program_hash;
  };
  auto nothing = [](Graph&) {};
  std::uint64_t plain = hash(nothing);
  EXPECT_EQ(hash(nothing), plain);
  EXPECT_EQ(hash([](Graph& g) {
              for (Node& node : g.nodes) node.where = "/other/place.cc:99", node.path += ".x";
            }),
            plain);
  EXPECT_NE(hash([](Graph& g) { g.outputs[0].name = "cost"; }), plain);
  EXPECT_NE(hash([](Graph& g) { g.variables[0].stored = Layout{S(0)}; }), plain);
  CompileOptions slots, team, costs;
  slots.slots = 1, team.team = 2, costs.costs.memory_bytes *= 2;
  auto read_ahead = [](Graph& g) {
    for (Node& node : g.nodes)
      if (node.op->name == "input") node.attrs.set("ahead", true);
  };
  EXPECT_NE(hash(read_ahead), plain);
  EXPECT_NE(hash(read_ahead, slots), hash(read_ahead));
  EXPECT_NE(hash(nothing, team), plain) << "results depend on the team's size";
  EXPECT_NE(hash(nothing, costs), plain);
  const std::uint64_t with_costs = hash(nothing, costs);
  costs.costs.origin = "measured on this machine, saved in /home/me/costs.txt";
  EXPECT_EQ(hash(nothing, costs), with_costs) << "the numbers decide, not where they come from";
  const Compilation& other = compiled("data=2");
  EXPECT_NE(other.plan.program_hash, plain);
}

}  // namespace
}  // namespace karez::passes
