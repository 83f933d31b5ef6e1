// Tests of the box pass: transition trees where layouts differ, no nodes where they agree, and the values of outputs
// and variables.
#include "karez/passes/sharding/box.h"

#include <gtest/gtest.h>

#include "karez/base/test_golden.h"
#include "karez/passes/node_traits.h"
#include "karez/passes/test_evaluate.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::count_op;
using testing::table;

Layout on_data(Sbp entry) { return {entry}; }

// A graph with given layouts. Every operand is required in its producer's layout, unless a test changes
// `operand_layouts`.
struct PlacedProgram {
  Graph graph;
  Builder b{graph, table()};
  OperandLayouts operand_layouts;
  explicit PlacedProgram(const char* mesh = "data=2") { graph.meshes = {Mesh::parse(mesh)}; }
  ValueId with_layout(ValueId value, Layout layout) {
    graph.value(value).layout = std::move(layout);
    return value;
  }
  void use_producer_layouts() {
    operand_layouts.clear();
    for (const Node& node : graph.nodes) {
      operand_layouts.emplace_back();
      for (ValueId in : node.inputs) operand_layouts.back().push_back(*graph.value(in).layout);
    }
  }
  std::string boxed() {
    graph = box(graph, table(), operand_layouts, CostTable());
    verify(graph);
    std::string text;
    for (const Node& node : graph.nodes)
      if (node.op->name == "box")
        text += cat(
            node.attrs.text("move"), " ",
            print(graph.type(node.inputs[0]), graph.mesh(node.inputs[0]), *graph.value(node.inputs[0]).layout), " -> ",
            print(graph.type(node.outputs[0]), graph.mesh(node.outputs[0]), *graph.value(node.outputs[0]).layout),
            "\n");
    return text;
  }
};

TEST(Box, NoBoxIsInsertedIfLayoutsAgree) {
  PlacedProgram p;
  ValueId x = p.with_layout(build::input(p.b, "x", {DType::f32, {4, 6}}), on_data(S(0)));
  ValueId y = p.with_layout(build::exp(p.b, x), on_data(S(0)));
  ValueId z = p.with_layout(build::reduce_max(p.b, y, {1}), on_data(S(0)));
  ValueId n = p.with_layout(build::constant(p.b, {DType::f32, {}}, 1), on_data(B()));
  (void)z;
  p.graph.outputs.push_back({"n", n});
  p.use_producer_layouts();
  EXPECT_EQ(p.boxed(), "");
}

TEST(Box, APartialRequiredSplitAndBroadcastIsReducedOnce) {
  PlacedProgram p;
  ValueId x = p.with_layout(build::input(p.b, "x", {DType::f32, {4, 6}}), on_data(S(1)));
  ValueId c = p.with_layout(build::reduce_sum(p.b, x, {1}), on_data(P()));
  ValueId split = p.with_layout(build::exp(p.b, c), on_data(S(0)));
  ValueId replicated = p.with_layout(build::tanh(p.b, c), on_data(B()));
  ValueId repeated = p.with_layout(build::neg(p.b, c), on_data(B()));
  (void)split;
  p.graph.outputs = {{"whole", replicated}, {"again", repeated}};
  p.use_producer_layouts();
  p.operand_layouts[NodeId(2)] = {on_data(S(0))};
  p.operand_layouts[NodeId(3)] = p.operand_layouts[NodeId(4)] = {on_data(B())};
  EXPECT_TRUE(golden(p.boxed(), "all_reduce f32[4; sum@data] -> f32[4;]\nslice f32[4;] -> f32[4@data]\n"));
}

TEST(Box, OutputsAreBroadcastAndKeepTheirNames) {
  PlacedProgram p;
  ValueId x = p.with_layout(build::input(p.b, "x", {DType::f32, {5, 6}}), on_data(S(0)));
  ValueId y = p.with_layout(build::exp(p.b, x), on_data(S(0)));
  p.graph.outputs = {{"y", y}, {"x", x}};
  p.use_producer_layouts();
  EXPECT_TRUE(golden(p.boxed(), "all_gather f32[5@data, 6] -> f32[5, 6;]\nall_gather f32[5@data, 6] -> f32[5, 6;]\n"));
  for (const Output& output : p.graph.outputs) {
    EXPECT_EQ(*p.graph.value(output.value).layout, on_data(B()));
    const Node& gather = p.graph.node(p.graph.value(output.value).producer);
    EXPECT_EQ(p.graph.node(p.graph.value(gather.inputs[0]).producer).op->name, output.name == "y" ? "exp" : "input");
  }
}

TEST(Box, AnOutputWithALayoutGetsOnlyThatLayout) {
  PlacedProgram p;
  ValueId x = p.with_layout(build::input(p.b, "x", {DType::f32, {5, 6}}), on_data(S(0)));
  ValueId y = p.with_layout(build::exp(p.b, x), on_data(S(0)));
  p.graph.outputs = {{"y", y, on_data(S(0))}, {"columns", y, on_data(S(1))}};
  p.use_producer_layouts();
  EXPECT_EQ(p.boxed(), "all_to_all f32[5@data, 6] -> f32[5, 6@data]\n");
  EXPECT_EQ(*p.graph.value(p.graph.outputs[0].value).layout, on_data(S(0)));
  EXPECT_EQ(*p.graph.value(p.graph.outputs[1].value).layout, on_data(S(1)));
  EXPECT_EQ(p.graph.outputs[1].layout, on_data(S(1))) << "later passes can read the layout";
}

TEST(Box, BoxesHaveTheSourceLineOfTheirOperand) {
  PlacedProgram p;
  p.b.where = "net.cc:7";
  ValueId x = p.with_layout(build::input(p.b, "x", {DType::f32, {4}}), on_data(S(0)));
  p.graph.outputs = {{"x", x}};
  p.use_producer_layouts();
  p.boxed();
  EXPECT_EQ(p.graph.nodes.back().where, "net.cc:7");
}

// This is how a sharded optimiser updates a weight.
TEST(Box, UpdatesOnSplitStateAreGatheredAndThenAssigned) {
  PlacedProgram p;
  TensorType type{DType::f32, {6, 4}};
  ValueId w = p.with_layout(testing::parameter(p.b, "w", type), on_data(B()));
  ValueId m = p.with_layout(testing::parameter(p.b, "m", type), on_data(S(0)));
  ValueId v = p.with_layout(testing::parameter(p.b, "v", type), on_data(S(0)));
  p.graph.variables[0].stored = on_data(B());
  p.graph.variables[1].stored = p.graph.variables[2].stored = on_data(S(0));
  ValueId g = p.with_layout(build::input(p.b, "g", type), on_data(S(0)));
  ValueId lr = p.with_layout(build::input(p.b, "lr", {DType::f32, {}}), on_data(B()));
  ValueId step = p.with_layout(build::input(p.b, "step", {DType::i64, {}}), on_data(B()));
  auto next = build::adam(p.b, w, m, v, g, lr, step);
  for (ValueId out : {next.w, next.m, next.v}) p.with_layout(out, on_data(S(0)));
  p.graph.variables[0].updated = next.w, p.graph.variables[1].updated = next.m, p.graph.variables[2].updated = next.v;
  p.use_producer_layouts();
  p.operand_layouts.back()[0] = on_data(S(0));
  EXPECT_TRUE(golden(p.boxed(), "slice f32[6, 4;] -> f32[6@data, 4]\nall_gather f32[6@data, 4] -> f32[6, 4;]\n"));
  EXPECT_EQ(*p.graph.value(p.graph.variables[0].updated).layout, on_data(B()));
  EXPECT_EQ(*p.graph.value(p.graph.variables[0].read).layout, on_data(B()));

  Compilation c = testing::compilation(std::move(p.graph));
  run_passes(c, {"order"});
  ASSERT_EQ(count_op(c.graph, "assign"), 1);
  const Node& assign = c.graph.nodes.back();
  EXPECT_EQ(assign.op->name, "assign");
  EXPECT_EQ(assign.inputs[0], c.graph.variables[0].read);
  EXPECT_EQ(c.graph.node(c.graph.value(assign.inputs[1]).producer).attrs.text("move", ""), "all_gather");
  EXPECT_EQ(updates_in_place(c.graph), (std::vector<bool>{true, true, true}));
}

TEST(Box, OneValueMayUpdateVariablesWithDifferentStoredLayouts) {
  PlacedProgram p;
  ValueId x = p.with_layout(build::input(p.b, "x", {DType::f32, {4}}), on_data(S(0)));
  ValueId replicated = p.with_layout(testing::parameter(p.b, "whole", {DType::f32, {4}}), on_data(B()));
  ValueId split = p.with_layout(testing::parameter(p.b, "split", {DType::f32, {4}}), on_data(S(0)));
  p.graph.variables[0].stored = on_data(B());
  p.graph.variables[1].stored = on_data(S(0));
  p.graph.variables[0].updated = p.graph.variables[1].updated = x;
  p.graph.outputs = {{"x", x}};
  p.use_producer_layouts();
  EXPECT_EQ(p.boxed(), "all_gather f32[4@data] -> f32[4;]\n");
  EXPECT_EQ(*p.graph.value(p.graph.variables[0].updated).layout, on_data(B()));
  EXPECT_EQ(*p.graph.value(p.graph.variables[1].updated).layout, on_data(S(0)));
  EXPECT_EQ(p.graph.node(p.graph.value(p.graph.variables[1].updated).producer).op->name, "input");
  (void)replicated, (void)split;
}

TEST(Box, OnTwoAxesEachStepNamesItsAxisAndTheResultsAreUnchanged) {
  PlacedProgram p("data=2,model=2");
  ValueId x = p.with_layout(build::input(p.b, "x", {DType::f64, {4, 6}}), {S(0), S(1)});
  ValueId c = p.with_layout(build::reduce_sum(p.b, x, {1}), {S(0), P()});
  ValueId y = p.with_layout(build::exp(p.b, c), {B(), S(0)});
  p.graph.outputs = {{"y", y}};
  p.use_producer_layouts();
  p.operand_layouts[NodeId(2)] = {{B(), S(0)}};
  auto old_results = testing::evaluate_graph(p.graph);
  p.boxed();
  for (const Node& node : p.graph.nodes) {
    if (node.op->name != "box") continue;
    const Layout &from = *p.graph.value(node.inputs[0]).layout, &to = *p.graph.value(node.outputs[0]).layout;
    auto axis = static_cast<std::size_t>(node.attrs.integer("axis"));
    EXPECT_NE(from[axis], to[axis]);
    EXPECT_EQ(from[1 - axis], to[1 - axis]) << "a step changes only one axis";
    EXPECT_EQ(node.attrs.text("from"), print(from[axis]));
    EXPECT_EQ(node.attrs.text("to"), print(to[axis]));
  }
  EXPECT_EQ(testing::max_relative_difference(old_results, testing::evaluate_graph(p.graph)), 0);
}

}  // namespace
}  // namespace karez::passes
