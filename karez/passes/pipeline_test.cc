// Tests of complete compilations of small training steps: the contents of the plan, passes that are switched off, and
// the times and texts of passes.
#include "karez/passes/pipeline.h"
#include "karez/passes/compile.h"

#include <gtest/gtest.h>

#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::table;

TEST(Pipeline, AnMlpOnOneDeviceCompilesToSixActors) {
  Compilation c = testing::compilation(testing::mlp_step(Mesh::of({}), {784, 256, 128, 10}, 64));
  compile(c);
  EXPECT_TRUE(c.plan.transfers.empty());
  EXPECT_TRUE(c.plan.communicators.empty());
  int compute = 0, input = 0, fetch = 0, state = 0;
  for (const Actor& actor : c.plan.actors) {
    compute += actor.body == BodyKind::compute, input += actor.body == BodyKind::input;
    fetch += actor.body == BodyKind::fetch, state += actor.body == BodyKind::state;
  }
  EXPECT_EQ(compute, 1);
  EXPECT_EQ(input, 3);
  EXPECT_EQ(fetch, 1);
  EXPECT_EQ(state, 1);
  int fused = 0, updates = 0;
  for (const Actor& actor : c.plan.actors)
    for (const Call& call : actor.calls) fused += call.attrs.flag("bias", false), updates += call.kernel == "any.sgd";
  EXPECT_EQ(fused, 3);
  EXPECT_EQ(updates, 1);
}

TEST(Pipeline, AnMlpCompilesOnMeshesOfOneAndTwoAxes) {
  for (const char* mesh : {"data=4", "model=4", "data=2,model=2"}) {
    Compilation c = testing::compilation(testing::mlp_step(Mesh::parse(mesh), {784, 256, 128, 10}, 64));
    compile(c);
    EXPECT_EQ(c.plan.devices.size(), 4u);
    EXPECT_TRUE(c.optimal) << mesh << " " << c.shard_report;
    EXPECT_LE(c.cost_bound, c.cost * (1 + 1e-12));
    for (const Variable& variable : c.graph.variables) EXPECT_TRUE(variable.stored) << variable.name;
    std::size_t blocks = 0;
    for (const Block& block : c.plan.blocks) blocks += block.kind == BlockKind::variable;
    EXPECT_EQ(blocks, 4 * c.graph.variables.size());
  }
}

TEST(Pipeline, EveryPassIsTimedAndItsTextIsKeptOnRequest) {
  for (bool keep_text : {false, true}) {
    Compilation c = testing::compilation(testing::mlp_step(Mesh::of({}), {4, 3}, 2));
    c.options.keep_text = keep_text;
    compile(c);
    ASSERT_EQ(c.passes.size(), pipeline().size());
    for (std::size_t i = 0; i < c.passes.size(); ++i) {
      EXPECT_EQ(c.passes[i].name, pipeline()[i].name);
      EXPECT_GE(c.passes[i].seconds, 0);
      EXPECT_EQ(!c.passes[i].text.empty(), keep_text) << c.passes[i].name;
    }
    if (!keep_text) continue;
    EXPECT_EQ(print(parse_graph(c.passes[0].text, table())), c.passes[0].text);
    EXPECT_EQ(parse_plan(c.passes.back().text), c.plan);
  }
}

std::string error_with_off(std::vector<std::string> off) {
  Compilation c = testing::compilation(testing::mlp_step(Mesh::of({}), {4, 3}, 2));
  c.options.off = std::move(off);
  try {
    compile(c);
  } catch (const Error& error) { return error.what(); }
  return "";
}

TEST(Pipeline, PassesThatMayBeOffAreSwitchedOffByName) {
  Compilation c = testing::compilation(testing::mlp_step(Mesh::of({}), {4, 3}, 2));
  c.options.off = {"canonicalise", "fuse"};
  compile(c);
  EXPECT_EQ(c.passes.size(), pipeline().size() - 2);
  for (const PassTime& pass : c.passes) EXPECT_TRUE(pass.name != "canonicalise" && pass.name != "fuse");
  EXPECT_EQ(error_with_off({"fuse"}), "");
  EXPECT_EQ(error_with_off({"shard"}), "the pass 'shard' cannot be switched off");
  EXPECT_EQ(error_with_off({"fuse", "emit"}), "the pass 'emit' cannot be switched off");
  EXPECT_EQ(error_with_off({"fold"}),
            "unknown pass 'fold'; the nearest of 21 are: box, fuse, cast, emit, hoist, order, shard, slots, "
            "unroll, layout");
}

TEST(Pipeline, CompilingAgainGivesTheSamePlan) {
  Compilation c = testing::compilation(testing::mlp_step(Mesh::parse("data=2"), {4, 3}, 2));
  compile(c);
  Compilation recompiled = testing::compilation(testing::mlp_step(Mesh::parse("data=2"), {4, 3}, 2));
  compile(recompiled);
  EXPECT_EQ(recompiled.plan, c.plan);
}

}  // namespace
}  // namespace karez::passes
