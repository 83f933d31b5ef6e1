// Tests of programs whose meshes have one device each: the layouts and the cost are those that the search finds.
#include <gtest/gtest.h>

#include "karez/passes/lowering/fuse/fused_values.h"
#include "karez/passes/sharding/shard_programs.h"
#include "karez/passes/sharding/shard_search.h"
#include "karez/passes/sharding/test_shard.h"

namespace karez::passes {
namespace {

void expect_result_of_search(const Graph& program) {
  const Graph graph = with_effective_layouts(program);
  const CostTable costs;
  const FusedValues fused = fused_values(graph, testing::catalog(), {});
  const ShardedGraph sharded = shard(graph, costs, fused);
  const Choices choices = choices_of(graph, costs, fused);
  TransitionCostCache prices(costs, fused);
  const LayoutSearchResult searched = search_layouts(graph, choices, prices);
  const ShardedGraph applied = apply_choices(graph, choices, searched.chosen);
  EXPECT_GT(sharded.cost, 0);
  EXPECT_DOUBLE_EQ(sharded.cost, searched.cost);
  EXPECT_EQ(sharded.cost_bound, sharded.cost);
  EXPECT_TRUE(sharded.optimal && searched.optimal);
  EXPECT_EQ(print(sharded.graph), print(applied.graph));
  for (NodeId n : graph.nodes.ids()) EXPECT_EQ(sharded.operand_layouts[n], applied.operand_layouts[n]);
  EXPECT_DOUBLE_EQ(total(cost_breakdown(sharded.graph, sharded.operand_layouts, costs, fused)), sharded.cost);
}

TEST(ShardOnSingleDevices, LayoutsAndCostAreThoseOfTheSearch) {
  for (const char* mesh : {"", "data=1", "data=1,model=1"}) {
    expect_result_of_search(testing::mlp_step(Mesh::parse(mesh), {7, 16, 3}, 5));
    expect_result_of_search(testing::cnn_step(Mesh::parse(mesh), 3));
  }
}

TEST(ShardOnSingleDevices, ALayoutThatTheUserFixedOnAnAxisOfOneDeviceIsKeptAsBroadcast) {
  testing::ShardProgram p("data=1");
  const ValueId x = p.input("x", {8, 3});
  const ValueId y = build::relu(p.b, x);
  p.fix(y, {S(0)});
  p.graph.outputs.push_back({"y", y, Layout{S(0)}});
  expect_result_of_search(p.graph);
  const Compilation c = p.planned();
  EXPECT_EQ(*c.graph.value(y).layout, Layout{B()});
  EXPECT_EQ(*c.graph.outputs[0].layout, Layout{B()});
}

TEST(ShardOnSingleDevices, TransfersBetweenThemArePriced) {
  Graph graph;
  graph.meshes = {Mesh::parse(""), Mesh::parse("")};
  graph.meshes[1].devices = {{1, 0}};
  Builder b(graph, testing::table());
  const ValueId x = build::input(b, "x", {DType::f32, {500, 500}});
  const ValueId moved = b.transfer_to_mesh(build::relu(b, x), 1);
  b.mesh = 1;
  graph.outputs.push_back({"y", build::relu(b, moved), {}});
  expect_result_of_search(graph);
  const CostTable costs;
  EXPECT_GT(shard(graph, costs).cost, 500 * 500 * 4 * costs.link.beta);
}

TEST(ShardOnSingleDevices, WithoutAPredictionThePlanIsTheSame) {
  for (const char* mesh : {"", "data=2"}) {
    Compilation c = testing::compilation(testing::mlp_step(Mesh::parse(mesh), {7, 16, 3}, 6)), unpredicted = c;
    unpredicted.options.predict = false;
    compile(c), compile(unpredicted);
    EXPECT_EQ(c.plan, unpredicted.plan);
    EXPECT_GT(c.cost, 0);
    EXPECT_EQ(unpredicted.cost, *mesh == '\0' ? 0 : c.cost) << mesh;  // on several devices, layouts depend on it
  }
}

}  // namespace
}  // namespace karez::passes
