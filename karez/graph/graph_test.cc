// Tests of the table of ops and of queries on a graph.
#include "karez/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/graph/test_graph.h"

namespace karez::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(OpTable, RepeatedAndInvalidNamesAreErrors) {
  OpDef op;
  op.name = "twice";
  EXPECT_EQ(error_of([&] { OpTable({op}); }), "op 'twice' has no infer function");
  op.infer = infer_first;
  EXPECT_EQ(error_of([&] { OpTable({op, op}); }), "two ops are called 'twice'");
  op.name = "a b";
  EXPECT_EQ(error_of([&] { OpTable({op}); }), "an op cannot be named \"a b\"");
}

TEST(OpTable, TheErrorForAnUnknownNameListsSimilarNames) {
  OpTable ops = test_ops();
  EXPECT_EQ(error_of([&] { ops.at("reduce"); }),
            "unknown op 'reduce'; the nearest of 22 are: reduce_max, reduce_sum, relu, add, input, crop, fill, "
            "flatten, matmul, part");
  EXPECT_EQ(ops.find("nothing"), nullptr);
  EXPECT_EQ(ops.at("add").name, "add");
}

TEST(OpDef, TheShapeAttributeBecomesLocalUnlessTheOpHasAHook) {
  OpTable ops = test_ops();
  Graph graph;
  Builder(graph, ops).one("input", {}, {{"shape", Ints{8, 4}}, {"name", std::string("x")}});
  LocalView view{{&graph, NodeId(0)}, {}, {{{2, 4}, {0, 4}}}};
  EXPECT_EQ(localise(view).print(), R"({name="x", shape=[2, 4]})");
  OpDef with_hook = ops.at("input");
  with_hook.localise = [](const LocalView& v) { return Attrs{{"start", v.out[0][0].begin}}; };
  graph.nodes[NodeId(0)].op = &with_hook;
  EXPECT_EQ(localise(view).print(), "{start=2}");
}

TEST(OpDef, TheDefaultCostIsTheBytesOfOperandsAndResults) {
  OpTable ops = test_ops();
  std::vector<TensorType> in{{DType::f32, {4, 4}}, {DType::f64, {2}}}, out{{DType::b8, {3}}};
  Cost cost = cost_of(ops.at("relu"), in, out, {});
  EXPECT_EQ(cost.bytes, 64 + 16 + 3);
  EXPECT_EQ(cost.flops, 0);
  EXPECT_EQ(cost.work, WorkClass::memory);
}

TEST(Graph, UsesListAllConsumers) {
  TestGraph g;
  auto uses = uses_of(g.graph);
  EXPECT_THAT(uses[ValueId(0)], ElementsAre(Use{NodeId(1), 0}, Use{NodeId(1), 1}, Use{NodeId(2), 0}));
  EXPECT_THAT(uses[ValueId(1)], ElementsAre(Use{NodeId(2), 1}));
  EXPECT_THAT(uses[ValueId(2)], IsEmpty());
}

TEST(Graph, ANodeWithoutASourceLineIsDescribedByItsNumber) {
  TestGraph g;
  EXPECT_EQ(describe(g.graph, NodeId(0)), "variable n0");
  EXPECT_EQ(describe(g.graph, NodeId(2)), "add at net.cc:4");
}

TEST(Graph, ActAttributesOverrideTheAttributesOfTheNode) {
  OpTable ops = test_ops();
  const Graph g = parse_graph(
      "graph main {\n  %0 = fill() {from=7, shape=[4]} : f32[4] acts 2 {begin=0} {begin=4, from=8}\n}", ops);
  EXPECT_EQ(attrs_at(g.nodes[NodeId(0)], 0).print(), "{begin=0, from=7, shape=[4]}");
  EXPECT_EQ(attrs_at(g.nodes[NodeId(0)], 1).print(), "{begin=4, from=8, shape=[4]}");
}

}  // namespace
}  // namespace karez::graph
