// Tests of the shard pass: known pitfalls, plans that the planner finds without rules, and layouts fixed by the user.
#include "karez/passes/sharding/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "karez/passes/compile.h"
#include "karez/passes/pipeline.h"
#include "karez/passes/sharding/box.h"
#include "karez/passes/sharding/shard_copies.h"
#include "karez/passes/sharding/shard_programs.h"
#include "karez/passes/sharding/test_shard.h"

namespace karez::passes {
namespace {

using testing::compute_seconds;
using testing::moves_of;
using Program = testing::ShardProgram;

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) { return error.what(); }
  return "no error";
}

TEST(Shard, ReplicatingEverythingIsCheapestOnlyIfComputationIsFree) {
  Graph graph = testing::mlp_step(Mesh::parse("data=4"), {784, 256, 128, 10}, 1024);
  auto replicated_cost = [&](const CostTable& costs) {
    Choices choices;
    for (NodeId n : graph.nodes.ids()) choices.push_back(choices_of(graph, n, costs));
    for (const auto& list : choices)
      for (Sbp entry : list[0].out(0)) EXPECT_TRUE(entry.is_broadcast());  // the first choice is all Broadcast
    TransitionCostCache prices(costs);
    return assignment_cost(graph, choices, ById<NodeId, int>(graph.nodes.size(), 0), prices);
  };
  CostTable free_compute;
  free_compute.matmul_flops = free_compute.memory_bytes = 1e300;
  free_compute.call = 0;
  EXPECT_LT(replicated_cost(free_compute), 1e-200);  // nothing can be cheaper

  CostTable costs;
  Compilation c = testing::compilation(graph);
  c.options.costs = costs;
  run_passes(c, {"shard"});
  EXPECT_LT(c.cost, 0.5 * replicated_cost(costs));
  for (NodeId n : c.graph.nodes.ids()) {
    if (c.graph.node(n).op->name != "matmul") continue;
    bool split = std::any_of(c.operand_layouts[n].begin(), c.operand_layouts[n].end(),
                             [](const Layout& layout) { return layout[0].is_split(); });
    EXPECT_TRUE(split) << describe(c.graph, n);
  }
}

TEST(Shard, TheTransferFromAnUpdatedToAStoredLayoutIsIncludedInTheCost) {
  auto plan = [](bool stored) {
    Program p("data=4");
    ValueId w = p.weight("w", {1024, 256}), m = p.weight("m", {1024, 256});
    ValueId lr = p.input("lr", {}), x = p.input("x", {4096, 1024}), dy = p.input("dy", {4096, 256});
    p.fix(w, {B()});
    p.fix(m, {S(0)});
    p.fix(x, {S(0)});
    p.fix(dy, {S(0)});
    auto updated = build::sgd(p.b, w, m, build::matmul(p.b, x, dy, {.transpose_a = true}), lr, {.momentum = 0.9});
    p.fix(updated.w, {S(0)});
    if (stored) p.graph.variables[0].updated = updated.w;
    return p.planned();
  };
  Compilation with_update = plan(true), without_update = plan(false);
  TransitionStep gather{0, Move::all_gather, {S(0)}, {B()}};
  EXPECT_NEAR(with_update.cost - without_update.cost,
              seconds({DType::f32, {1024, 256}}, with_update.graph.meshes[0], gather, CostTable{}), 1e-12);
  auto moves = moves_of(with_update);
  EXPECT_EQ(std::count(moves.begin(), moves.end(), "reduce_scatter"), 1);
  EXPECT_EQ(std::count(moves.begin(), moves.end(), "all_gather"), 1);
}

TEST(Shard, APartialRequiredAsSplitAndAsBroadcastIsReducedOnlyOnce) {
  Program p("model=4");
  ValueId a = p.input("a", {512, 1024}), w = p.weight("w", {1024, 512});
  p.fix(w, {S(0)});
  ValueId y = build::matmul(p.b, a, w);
  p.fix(y, {P()});
  p.fix(build::relu(p.b, y), {B()});
  p.fix(build::tanh(p.b, y), {S(0)});
  Compilation c = p.planned();
  TensorType type{DType::f32, {512, 512}};
  const Mesh& mesh = c.graph.meshes[0];
  double all_reduce = seconds(type, mesh, {0, Move::all_reduce, {P()}, {B()}}, CostTable{});
  double separate_moves = all_reduce + seconds(type, mesh, {0, Move::reduce_scatter, {P()}, {S(0)}}, CostTable{});
  EXPECT_NEAR(c.cost - compute_seconds(c), all_reduce, 1e-12);
  EXPECT_GT(separate_moves, all_reduce * 1.4);
  EXPECT_EQ(moves_of(c),
            (std::vector<std::string>{"slice", "all_reduce", "slice"}));  // slice of a, all_reduce of y, slice of y
}

TEST(Shard, ATwoLayerBlockIsSplitByColumnsThenByRows) {
  Program p("model=4");
  ValueId x = p.input("x", {64, 512}), w1 = p.weight("w1", {512, 2048}), w2 = p.weight("w2", {2048, 512});
  ValueId first_product = build::matmul(p.b, x, w1);
  ValueId y = build::matmul(p.b, build::relu(p.b, first_product), w2);
  p.graph.outputs.push_back({"y", y});
  CostTable costs;
  costs.matmul_flops = 1e12;  // weights are large compared with the batch, so reading them takes most of the time
  Compilation c = p.planned(costs);
  EXPECT_TRUE(c.optimal);
  auto weight_layout = [&](ValueId product) { return print(c.operand_layouts[c.graph.value(product).producer][1]); };
  EXPECT_EQ(weight_layout(first_product), "(S(1))");
  EXPECT_EQ(weight_layout(y), "(S(0))");
  EXPECT_EQ(print(*c.graph.value(y).layout), "(P(sum))");
  auto moves = moves_of(c);
  std::erase(moves, "slice");  // no variable is updated, so storing a full weight and slicing it costs the same
  EXPECT_EQ(moves, std::vector<std::string>{"all_reduce"});
}

TEST(Shard, ATrainingStepOfACnnOnTwoAxesIsPlannedExactly) {
  Compilation c = testing::compilation(testing::cnn_step(Mesh::parse("data=2,model=2"), 64));
  run_passes(c, {"shard"});
  EXPECT_TRUE(c.optimal) << c.shard_report;
  for (const Node& node : c.graph.nodes) {
    if (node.op->name != "conv2d") continue;
    const Layout& layout = *c.graph.value(node.outputs[0]).layout;  // all four devices share the expensive ops
    EXPECT_TRUE(layout[0].is_split() && layout[1].is_split()) << print(layout);
  }
}

// A transfer in each of four micro-batches is counted four times, in the search and in the cost of the result.
TEST(Shard, TransfersInEveryMicroBatchAreCountedEachTime) {
  auto plan = [](int microbatches) {
    Compilation c = testing::compilation(testing::mlp_step(Mesh::parse("data=2"), {784, 256, 128, 10}, 64));
    c.options.microbatches = microbatches;
    compile(c);
    EXPECT_TRUE(c.optimal) << microbatches << " micro-batches: the cost is " << c.cost << ", the bound is "
                           << c.cost_bound;
    EXPECT_NEAR(c.cost_bound, c.cost, 1e-9 * c.cost);
    return c.cost;
  };
  EXPECT_GT(plan(4), plan(1));
}

TEST(Shard, AFixedLayoutIsKept) {
  Program p("data=4");
  ValueId h = build::relu(p.b, p.input("x", {64, 512}));
  p.fix(h, {S(1)});
  p.graph.outputs.push_back({"h", h});
  Compilation c = p.planned();
  EXPECT_EQ(print(*c.graph.value(h).layout), "(S(1))");
  EXPECT_EQ(moves_of(c), (std::vector<std::string>{"slice", "all_gather"}));
}

TEST(Shard, ALayoutThatAnOpCannotProduceIsAnError) {
  Program p("data=4");
  p.b.path = "fc1";
  ValueId h = build::relu(p.b, p.input("x", {64, 512}));
  p.fix(h, {P()});
  EXPECT_EQ(error_of([&] { p.planned(); }),
            "relu at net.cc:7 (fc1) cannot produce f32[64, 512] in the layout (P(sum)) on mesh(data=4); it can produce "
            "(S(0)), "
            "(S(1)), (B)");
  Program two_axes("data=2,model=2");
  ValueId x = two_axes.input("x", {64, 1});
  two_axes.fix(x, {B(), S(1)});
  EXPECT_EQ(
      error_of([&] { two_axes.planned(); }),
      "input at net.cc:7 cannot produce f32[64, 1] in the layout (B, S(1)) on mesh(data=2, model=2); it can produce "
      "(S(0), S(0)), (S(0), B), (B, S(0)), "
      "(B, B)");
}

// The caller leaves the layout of these outputs to the planner.
TEST(Shard, AnOutputWithAPlannedLayoutIsSplitOnlyAlongTheNamedAxes) {
  for (const char* axes : {"a", "b", "a+b"}) {
    Program p("a=2,b=2");
    const ValueId x = p.input("x", {256, 256});
    p.fix(x, {S(0), B()});
    const ValueId y = p.b.one("layout", {p.b.one("exp", {x})}, Attrs().set("planned", std::string(axes)));
    p.graph.outputs.push_back({"y", y});
    for (const bool copies : {false, true}) {
      Compilation c = testing::compilation(p.graph);
      const ShardedGraph sharded = copies ? shard_copies(p.graph, c.options.costs) : shard(p.graph, c.options.costs);
      ASSERT_TRUE(sharded.graph.outputs[0].layout.has_value());
      const Layout layout = *sharded.graph.outputs[0].layout;
      EXPECT_EQ(layout[0], axes[0] == 'a' ? S(0) : B()) << axes;
      EXPECT_EQ(layout[1].is_split(), std::string(axes) != "a") << axes;
      EXPECT_EQ(layout, *sharded.graph.value(sharded.graph.outputs[0].value).layout);
    }
    std::vector<std::string> moves = moves_of(p.planned());
    std::erase(moves, "slice");  // each device slices its part
    EXPECT_EQ(moves, axes[0] == 'a' ? std::vector<std::string>{} : std::vector<std::string>{"all_gather"}) << axes;
  }
}

TEST(Shard, AnOutputWithAPlannedLayoutIsNotAPartialSum) {
  Program p("d=2");
  const ValueId x = p.input("x", {512, 256}), w = p.input("w", {512, 256});
  p.fix(x, {S(0)});
  p.fix(w, {S(0)});
  const ValueId y =
      p.b.one("layout", {build::matmul(p.b, x, w, {.transpose_a = true})}, Attrs().set("planned", std::string("d")));
  p.graph.outputs.push_back({"y", y});
  const Compilation c = p.planned();
  EXPECT_TRUE(c.graph.outputs[0].layout->at(0).is_split());
  EXPECT_EQ(moves_of(c), std::vector<std::string>{"reduce_scatter"});
}

}  // namespace
}  // namespace karez::passes
