// Whole compiles of small steps: what the plan holds, switches, times, texts, and how long programs of thousands of nodes take.
#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include <chrono>

#include "passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::table;

TEST(Pipeline, AnMlpOnOneDeviceIsAHandfulOfActors) {
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

TEST(Pipeline, EveryPassIsTimedAndItsTextKeptIfAsked) {
  for (bool keep : {false, true}) {
    Compilation c = testing::compilation(testing::mlp_step(Mesh::of({}), {4, 3}, 2));
    c.options.keep_text = keep;
    compile(c);
    ASSERT_EQ(c.passes.size(), pipeline().size());
    for (std::size_t i = 0; i < c.passes.size(); ++i) {
      EXPECT_EQ(c.passes[i].name, pipeline()[i].name);
      EXPECT_GE(c.passes[i].seconds, 0);
      EXPECT_EQ(!c.passes[i].text.empty(), keep) << c.passes[i].name;
    }
    if (!keep) continue;
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

TEST(Pipeline, PassesAreSwitchedOffByNameWhereThatIsLegal) {
  Compilation c = testing::compilation(testing::mlp_step(Mesh::of({}), {4, 3}, 2));
  c.options.off = {"canonicalise", "fuse"};
  compile(c);
  EXPECT_EQ(c.passes.size(), pipeline().size() - 2);
  for (const PassTime& pass : c.passes) EXPECT_TRUE(pass.name != "canonicalise" && pass.name != "fuse");
  EXPECT_EQ(error_with_off({"fuse"}), "");
  EXPECT_EQ(error_with_off({"shard"}), "the pass 'shard' cannot be switched off");
  EXPECT_EQ(error_with_off({"fuse", "emit"}), "the pass 'emit' cannot be switched off");
  EXPECT_EQ(error_with_off({"fold"}),
            "no pass is called 'fold'; of 19 the nearest are: box, fit, fuse, cast, emit, order, shard, slots, unroll, layout");
}

TEST(Pipeline, ACompilationMayBeRunAgain) {
  Compilation c = testing::compilation(testing::mlp_step(Mesh::parse("data=2"), {4, 3}, 2));
  compile(c);
  Compilation again = testing::compilation(testing::mlp_step(Mesh::parse("data=2"), {4, 3}, 2));
  compile(again);
  EXPECT_EQ(again.plan, c.plan);
}

// A chain of pointwise nodes with a few weights in it, so that gradients, updates and transfers are there too.
Graph long_chain(const char* mesh, int nodes) {
  Graph graph;
  graph.meshes = {Mesh::parse(mesh)};
  Builder b(graph, table());
  ValueId x = build::input(b, "x", {DType::f32, {64, 64}}), lr = build::input(b, "lr", {DType::f32, {}});
  std::vector<ValueId> weights, momenta;
  for (int n = 0; n < nodes; ++n) {
    if (n % 100 == 50) {
      std::string name = cat("w", n);
      weights.push_back(testing::parameter(b, name, {DType::f32, {64, 64}}));
      momenta.push_back(testing::parameter(b, "m." + name, {DType::f32, {64, 64}}));
      x = build::matmul(b, x, weights.back());
    } else {
      x = n % 3 == 0 ? build::tanh(b, x) : n % 3 == 1 ? build::sigmoid(b, x) : build::neg(b, x);
    }
  }
  for (std::size_t k = 0; k < weights.size(); ++k) {
    auto next = build::sgd(b, weights[k], momenta[k], build::matmul(b, x, weights[k], {.transpose_a = true}), lr, {.momentum = 0.9});
    graph.variables[2 * k].updated = next.w, graph.variables[2 * k + 1].updated = next.m;
  }
  graph.outputs = {{"y", x}};
  return graph;
}

TEST(Pipeline, ProgramsOfTwoThousandNodesCompileInSeconds) {
  for (const char* mesh : {"", "data=4"}) {
    Compilation c = testing::compilation(long_chain(mesh, 2000));
    auto begin = std::chrono::steady_clock::now();
    compile(c);
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::string times;
    for (const PassTime& pass : c.passes) times += cat(pass.name, " ", pass.seconds, " ");
    EXPECT_LT(seconds, 20) << times;  // a fraction of that on an idle machine: the bound is for squares, not for noise
  }
}

}  // namespace
}  // namespace karez::passes
