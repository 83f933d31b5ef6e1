// Tests of the builder, the table of ops, the verifier and queries on a graph.
#include "karez/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/base/test_golden.h"
#include "karez/graph/test_ops.h"

namespace karez::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Attrs square{{"shape", Ints{4, 4}}};

std::string verify_error(std::string_view text) {
  OpTable ops = test_ops();
  Graph g = parse_graph(text, ops);
  return error_of([&] { verify(g); });
}

// A valid graph for tests to damage: a variable read and updated, two nodes, an output.
const char* sound = R"(graph main mesh(data=2) {
  variable "w" : f32[4, 4;] read %0 updated %2
  %0 = variable() {name="w", shape=[4, 4]} : f32[4, 4]
  %1 = matmul(%0, %0) : f32[4@data, 4] in "fc" at "net.cc:3"
  %2 = add(%0, %1) : f32[4, 4] at "net.cc:4" after n1
  output "y" %1
}
)";
struct DamagedGraph {
  OpTable ops = test_ops();
  Graph graph = parse_graph(sound, ops);
  std::string error() const {
    return error_of([&] { verify(graph); });
  }
};

TEST(Builder, NodesGetTypesPathsAndLines) {
  OpTable ops = test_ops();
  Graph graph;
  Builder b(graph, ops);
  b.path = "fc";
  b.where = "net.cc:12";
  ValueId x = b.one("input", {}, {{"shape", Ints{2, 3}}}), y = b.one("input", {}, {{"shape", Ints{3, 5}}});
  ValueId z = b.one("matmul", {x, y});
  EXPECT_EQ(print(graph.type(z)), "f32[2, 5]");
  EXPECT_EQ(graph.value(z).producer, NodeId(2));
  EXPECT_EQ(describe(graph, NodeId(2)), "matmul at net.cc:12 (fc)");
  EXPECT_EQ(b.add("top", std::vector{z}).size(), 2u);
  verify(graph);
}

TEST(Builder, ErrorsQuoteTheUsersLine) {
  OpTable ops = test_ops();
  Graph graph;
  Builder b(graph, ops);
  ValueId x = b.one("input", {}, {{"shape", Ints{2, 3}}});
  b.path = "net.fc";
  b.where = "net.cc:12";
  auto error = [&](std::string_view op, std::initializer_list<ValueId> in) { return error_of([&] { b.one(op, in); }); };
  EXPECT_TRUE(golden(error("matmul", {x, x}), "matmul: inner sizes differ: 3 and 2\n  at net.cc:12 (in net.fc)"));
  EXPECT_TRUE(golden(error("matmul", {x}), "matmul takes 2 operands, not 1\n  at net.cc:12 (in net.fc)"));
  EXPECT_TRUE(golden(error("relu", {x, x}), "relu takes 1 operand, not 2\n  at net.cc:12 (in net.fc)"));
  EXPECT_TRUE(golden(error("matnul", {x, x}),
                     "no op is called 'matnul'; of 22 the nearest are: matmul, total, add, fill, flatten, input, part, "
                     "relu, scan, top\n  at net.cc:12 (in "
                     "net.fc)"));
  EXPECT_TRUE(
      golden(error("relu", {ValueId(99)}),
             "relu: operand 0 is %99, which does not exist; the graph has 1 values\n  at net.cc:12 (in net.fc)"));
  EXPECT_TRUE(
      golden(error("relu", {ValueId()}),
             "relu: operand 0 is %-1, which does not exist; the graph has 1 values\n  at net.cc:12 (in net.fc)"));
  EXPECT_TRUE(golden(error("input", {}), "attribute 'shape' is missing in {}\n  at net.cc:12 (in net.fc)"));
  b.path = "";
  EXPECT_TRUE(golden(error("matmul", {x}), "matmul takes 2 operands, not 1\n  at net.cc:12"));
  b.where = "";
  EXPECT_EQ(error("matmul", {x}), "matmul takes 2 operands, not 1");
  EXPECT_EQ(error("top", {x}), "top has 2 results, not 1");
}

TEST(Builder, AFailedNodeLeavesTheGraphAsItWas) {
  OpTable ops = test_ops();
  Graph graph;
  Builder b(graph, ops);
  ValueId x = b.one("input", {}, {{"shape", Ints{2, 3}}});
  std::string before = print(graph);
  error_of([&] { b.one("matmul", {x, x}); });
  EXPECT_EQ(print(graph), before);
}

TEST(Builder, ANodeIsPlacedOnTheChosenMeshOrWithItsLargestOperandAndOthersAreTransferredOnce) {
  OpTable ops = test_ops();
  Graph graph;
  graph.meshes = {Mesh::parse(""), Mesh::parse("a=2"), Mesh::parse("b=3")};
  Builder b(graph, ops);
  auto mesh = [&](ValueId id) { return graph.value(id).mesh; };
  ValueId floating = b.one("input", {}, square);
  b.mesh = 1;
  ValueId x = b.one("input", {}, square);
  b.mesh = 2;
  ValueId y = b.one("input", {}, square);
  EXPECT_EQ(mesh(b.one("relu", {b.one("input", {}, square)})), 2) << "the builder's mesh";
  b.mesh = 0;
  EXPECT_EQ(mesh(b.one("relu", {x})), 1) << "no mesh chosen: that of its operand";
  EXPECT_EQ(mesh(b.one("relu", {floating})), 0) << "not decided";
  ValueId sum = b.one("add", {floating, y});
  EXPECT_EQ(mesh(sum), 2);
  EXPECT_EQ(graph.node(graph.value(sum).producer).inputs[0], floating) << "an operand on mesh 0 is not transferred yet";
  ValueId first = b.one("add", {x, y});
  EXPECT_EQ(mesh(first), 1) << "the first of equally large operands";
  ValueId moved = graph.node(graph.value(first).producer).inputs[1];
  EXPECT_EQ(graph.node(graph.value(moved).producer).op->role, Role::transfer);
  EXPECT_EQ(graph.node(graph.value(moved).producer).inputs[0], y);
  EXPECT_EQ(b.transfer_to_mesh(y, 1), moved) << "one transfer is reused";
  EXPECT_EQ(b.transfer_to_mesh(x, 1), x);
  ValueId there = b.one("relu", {b.transfer_to_mesh(x, 2)});
  EXPECT_EQ(mesh(there), 2);
  EXPECT_EQ(mesh(b.one("add", {x, there})), 2) << "both are available there: x was transferred";
  b.mesh = 2;
  ValueId column = b.one("input", {}, {{"shape", Ints{4, 1}}});
  b.mesh = 0;
  EXPECT_EQ(mesh(b.one("matmul", {x, column})), 1)
      << "the larger operand decides, although both are available on the mesh of the smaller one";
  EXPECT_EQ(mesh(b.one("total", {x})), 1);
  EXPECT_EQ(mesh(b.one("fill", {b.one("total", {x})}, {{"shape", Ints{2}}})), 1);
  b.mesh = 3;
  EXPECT_EQ(error_of([&] { b.one("input", {}, square); }), "input: there is no mesh 3; the graph has 3");
}

// A gradient removes unused nodes and renumbers the others without notice to the builder.
TEST(Builder, ADroppedTransferIsAddedAgain) {
  OpTable ops = test_ops();
  Graph graph;
  graph.meshes = {Mesh::parse(""), Mesh::parse("a=2"), Mesh::parse("b=3"), Mesh::parse("c=4")};
  Builder b(graph, ops);
  b.mesh = 1;
  ValueId x = b.one("input", {}, square), y = b.one("input", {}, square);
  b.mesh = 2;
  ValueId there = b.one("input", {}, square);
  auto drop_last = [&] { graph.nodes.resize(graph.nodes.size() - 1), graph.values.resize(graph.values.size() - 1); };
  auto expect_transfer = [&](const char* what) {
    const ValueId moved = b.transfer_to_mesh(x, 2);
    ASSERT_TRUE(graph.values.has(moved)) << what;
    const Node& node = graph.node(graph.value(moved).producer);
    EXPECT_EQ(graph.value(moved).mesh, 2) << what;
    EXPECT_EQ(node.op->role, Role::transfer) << what;
    EXPECT_EQ(node.inputs[0], x) << what;
    EXPECT_EQ(b.transfer_to_mesh(x, 2), moved) << what;
    while (graph.values.size() > 3) drop_last();
    b.transfer_to_mesh(x, 2), drop_last();  // the number that the builder has recorded is the next one again
  };
  const ValueId first = b.transfer_to_mesh(x, 2);
  drop_last();
  expect_transfer("no value has its number");
  EXPECT_EQ(b.one("relu", {there}), first);
  expect_transfer("another op's result has its number");
  EXPECT_EQ(b.transfer_to_mesh(y, 2), first);
  expect_transfer("another value's transfer has its number");
  EXPECT_EQ(b.transfer_to_mesh(x, 3), first);
  expect_transfer("its transfer to another mesh has its number");
}

TEST(OpTable, RepeatedAndInvalidNamesAreErrors) {
  OpDef op;
  op.name = "twice";
  EXPECT_EQ(error_of([&] { OpTable({op}); }), "op 'twice' has no infer");
  op.infer = infer_first;
  EXPECT_EQ(error_of([&] { OpTable({op, op}); }), "two ops are called 'twice'");
  op.name = "a b";
  EXPECT_EQ(error_of([&] { OpTable({op}); }), "an op cannot be named \"a b\"");
}

TEST(OpTable, AnUnknownNameSuggestsSimilarOnes) {
  OpTable ops = test_ops();
  EXPECT_EQ(error_of([&] { ops.at("reduce"); }),
            "no op is called 'reduce'; of 22 the nearest are: reduce_max, reduce_sum, relu, add, input, crop, fill, "
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
  OpDef own = ops.at("input");
  own.localise = [](const LocalView& v) { return Attrs{{"start", v.out[0][0].begin}}; };
  graph.nodes[NodeId(0)].op = &own;
  EXPECT_EQ(localise(view).print(), "{start=2}");
}

TEST(OpDef, TheDefaultCostIsItsBytes) {
  OpTable ops = test_ops();
  std::vector<TensorType> in{{DType::f32, {4, 4}}, {DType::f64, {2}}}, out{{DType::b8, {3}}};
  Cost cost = cost_of(ops.at("relu"), in, out, {});
  EXPECT_EQ(cost.bytes, 64 + 16 + 3);
  EXPECT_EQ(cost.flops, 0);
  EXPECT_EQ(cost.work, WorkClass::memory);
}

TEST(Graph, UsesListEveryConsumer) {
  DamagedGraph g;
  auto uses = uses_of(g.graph);
  EXPECT_THAT(uses[ValueId(0)], ElementsAre(Use{NodeId(1), 0}, Use{NodeId(1), 1}, Use{NodeId(2), 0}));
  EXPECT_THAT(uses[ValueId(1)], ElementsAre(Use{NodeId(2), 1}));
  EXPECT_THAT(uses[ValueId(2)], IsEmpty());
}

TEST(Graph, ANodeWithoutLineIsNamedByItsNumber) {
  DamagedGraph g;
  EXPECT_EQ(describe(g.graph, NodeId(0)), "variable n0");
  EXPECT_EQ(describe(g.graph, NodeId(2)), "add at net.cc:4");
}

TEST(Verify, AValidGraphPasses) {
  EXPECT_EQ(verify_error(sound), "no error");
  EXPECT_EQ(verify_error("graph main {}"), "no error");
}

TEST(Verify, OperandsAreCounted) {
  EXPECT_EQ(
      verify_error("graph g { %0 = input() {shape=[2, 2]} : f32[2, 2] %1 = add(%0) : f32[2, 2] at \"net.cc:5\" }"),
      "add at net.cc:5 takes 2 operands, not 1");
}

TEST(Verify, TypesMustEqualTheInferredOnes) {
  EXPECT_EQ(
      verify_error(
          "graph g { %0 = input() {shape=[2, 2]} : f32[2, 2] %1 = relu(%0) : f32[2, 3] in \"fc\" at \"net.cc:5\" }"),
      "relu at net.cc:5 (fc): result 0 is f32[2, 3]; inferred from its operands: f32[2, 2]");
  EXPECT_EQ(verify_error(
                "graph g { %0 = input() {shape=[2, 3]} : f32[2, 3] %1 = matmul(%0, %0) : f32[2, 3] at \"net.cc:5\" }"),
            "matmul at net.cc:5: matmul: inner sizes differ: 3 and 2");
  EXPECT_EQ(verify_error("graph g { %0 = input() {shape=[2, 3]} : f32[2, 3] %1 = top(%0) : f32[2] }"),
            "top n1 has 1 results; its op infers 2");
  EXPECT_EQ(
      verify_error("graph g { %0 = input() {shape=[2]} : f32[2] %1 = input() {dtype=\"f64\", shape=[2]} : f64[2] %2 = "
                   "add(%0, %1) : f32[2] at \"net.cc:5\"}"),
      "add at net.cc:5: operands differ: f32[2] and f64[2]");
}

TEST(Verify, LayoutsMustBeValid) {
  DamagedGraph g;
  g.graph.values[ValueId(1)].layout = Layout{S(2)};
  EXPECT_THAT(g.error(),
              HasSubstr("matmul at net.cc:3 (fc): result 0: f32[4, 4] cannot have layout (S(2)) on mesh(data=2): "));
  g.graph.values[ValueId(1)].layout = Layout{B(), B()};
  EXPECT_THAT(g.error(), HasSubstr("cannot have layout (B, B) on mesh(data=2): "));
  g.graph.values[ValueId(1)].layout.reset();
  g.graph.variables[0].stored = Layout{S(5)};
  EXPECT_THAT(g.error(), HasSubstr("variable 'w': f32[4, 4] cannot have layout (S(5)) on mesh(data=2): "));
}

TEST(Verify, ProducersPrecedeConsumers) {
  DamagedGraph g;
  std::swap(g.graph.nodes[NodeId(1)].inputs[0], g.graph.nodes[NodeId(1)].outputs[0]);
  EXPECT_EQ(g.error(), "matmul at net.cc:3 (fc): operand 0 is %1, which no earlier node produces");
  DamagedGraph h;
  h.graph.nodes[NodeId(1)].inputs[1] = ValueId(9);
  EXPECT_EQ(h.error(), "matmul at net.cc:3 (fc): operand 1 is %9, which does not exist; the graph has 3 values");
}

TEST(Verify, ResultsAndProducersAgree) {
  DamagedGraph g;
  g.graph.values[ValueId(1)].producer = NodeId(2);
  EXPECT_EQ(g.error(), "matmul at net.cc:3 (fc): result 0 is %1, which is recorded as result 0 of node n2");
  DamagedGraph h;
  h.graph.nodes[NodeId(2)].outputs[0] = ValueId(1);
  EXPECT_EQ(h.error(), "add at net.cc:4: result 0 is %1, which node n1 also produces");
  DamagedGraph k;
  k.graph.values.push_back({.producer = NodeId(1), .output = 1, .type = {DType::f32, {}}, .mesh = 0, .layout = {}});
  EXPECT_EQ(k.error(), "graph main: value %3 names node n1 as its producer, which does not list it as a result");
  k.graph.values.back().producer = NodeId();
  EXPECT_EQ(k.error(), "no error") << "an unused number";
}

TEST(Verify, ControlEdgesNameEarlierNodes) {
  DamagedGraph g;
  g.graph.nodes[NodeId(1)].after = {NodeId(1)};
  EXPECT_EQ(g.error(), "matmul at net.cc:3 (fc) must run after node n1, which does not precede it (n1)");
  g.graph.nodes[NodeId(1)].after = {NodeId(2)};
  EXPECT_EQ(g.error(), "matmul at net.cc:3 (fc) must run after node n2, which does not precede it (n1)");
}

TEST(Verify, AVariableIsReadAndWrittenOnceWithItsType) {
  EXPECT_EQ(verify_error(R"(graph g { variable "w" : f32[2] variable "w" : f32[2] })"), "two variables are called 'w'");
  EXPECT_EQ(verify_error(R"(graph g { variable "w" : f32[3] read %0 %0 = variable() {name="w", shape=[2]} : f32[2] })"),
            "variable 'w' is f32[3] and read as %0, a f32[2]");
  EXPECT_EQ(verify_error(R"(graph g { variable "w" : f32[2] read %0 %0 = input() {shape=[2]} : f32[2] })"),
            "variable 'w' is read as %0, which is not the result of a node 'variable'");
  EXPECT_EQ(verify_error(R"(graph g { variable "w" : f32[2] read %0 %0 = variable() {name="v", shape=[2]} : f32[2] })"),
            "variable 'w' is read as %0, which is named 'v'");
  EXPECT_EQ(
      verify_error(R"(graph g { variable "w" : f32[2] %0 = variable() {name="w", shape=[2]} : f32[2] at "net.cc:1" })"),
      R"(variable at net.cc:1 {name="w", shape=[2]} reads a variable that the graph does not list or that another node reads)");
  EXPECT_EQ(
      verify_error(
          R"(graph g { variable "v" : f32[2] read %0 variable "w" : f32[2] read %0 %0 = variable() {shape=[2]} : f32[2] })"),
      "variable 'w' is read as %0, and so is another variable");
  DamagedGraph g;
  g.graph.variables[0].updated = ValueId(7);
  EXPECT_EQ(g.error(), "variable 'w' is updated to %7, which no node produces");
}

TEST(Verify, MeshesExistAndANodeHasOneMesh) {
  EXPECT_EQ(
      verify_error("graph g mesh() mesh(a=2) { %0 = input() {shape=[2]} : f32[2] %1 = input() {shape=[2]} : f32[2] on "
                   "mesh1 %2 = add(%0, %1) : f32[2] }"),
      "add n2: operand 1 is on mesh1, operand 0 on mesh0");
  EXPECT_EQ(
      verify_error("graph g mesh() mesh(a=2) { %0 = input() {shape=[2]} : f32[2] %1 = relu(%0) : f32[2] on mesh1 }"),
      "relu n1: result 0 is on mesh1, its operands on mesh0");
  DamagedGraph g;
  g.graph.values[ValueId(0)].mesh = 1;
  EXPECT_EQ(g.error(), "variable n0: result 0 is on mesh1; the graph has 1");
}

TEST(Verify, OutputsExistAndHaveDistinctNames) {
  DamagedGraph g;
  g.graph.outputs.push_back({"y", ValueId(0)});
  EXPECT_EQ(g.error(), "two outputs are called 'y'");
  g.graph.outputs.back() = {"z", ValueId(8)};
  EXPECT_EQ(g.error(), "output 'z' is %8, which no node produces");
  g.graph.outputs.back() = {"z", ValueId(1), Layout{sbp::S(0)}};
  EXPECT_EQ(g.error(), "no error");
  g.graph.outputs.back().layout = Layout{sbp::S(2)};
  EXPECT_THAT(g.error(), ::testing::HasSubstr("output 'z': f32[4, 4] cannot have layout (S(2)) on mesh(data=2)"));
  g.graph.outputs.back().layout = Layout{sbp::P()};
  EXPECT_EQ(g.error(), "output 'z' has layout (P(sum)); an output must not be Partial");
}

// Micro-batches: a value filled once is kept for all acts; a value filled in each act is joined before it is used once.
TEST(Verify, FillRatesOfOperandsMatchTheirConsumers) {
  const std::string micro = R"(graph main {
  %0 = input() {shape=[4, 4]} : f32[4, 4]
  %1 = input() {shape=[2, 4]} : f32[2, 4] acts 3
  %2 = matmul(%1, %0) : f32[2, 4] acts 3
  %3 = sum_acts(%2) : f32[2, 4] acts 3
  %4 = join_acts(%2) {parts=3} : f32[6, 4] acts 3
  %5 = part(%0) {parts=2} : f32[2, 4] acts 2
)";
  EXPECT_EQ(verify_error(micro + "  %6 = relu(%3) : f32[2, 4]\n  output \"y\" %6\n  output \"z\" %4\n}"), "no error");
  EXPECT_EQ(verify_error(micro + "  %6 = relu(%2) : f32[2, 4]\n}"),
            "relu n6 acts 1 times in a launch, but operand 0, %2, is produced 3 times");
  EXPECT_EQ(verify_error(micro + "  %6 = add(%2, %5) : f32[2, 4] acts 3\n}"),
            "add n6 acts 3 times in a launch, but operand 1, %5, is produced 2 times");
  EXPECT_EQ(verify_error(micro + "  output \"y\" %2\n}"),
            "output 'y' is %2, which is produced 3 times in a launch, not once");
  EXPECT_EQ(verify_error(micro + "  %6 = relu(%3) : f32[2, 4]\n  %7 = add(%2, %6) : f32[2, 4] acts 3\n}"),
            "add n7 acts 3 times in a launch, but operand 1, %6, waits for all acts of earlier nodes");
  EXPECT_EQ(verify_error(micro + "  %6 = sum_acts(%0) : f32[4, 4] acts 3\n}"),
            "sum_acts n6 acts 3 times in a launch, but operand 0, %0, is produced 1 times");
  EXPECT_EQ(verify_error(micro + "  %6 = part(%2) {parts=3} : f32[0, 4] acts 3\n}"),
            "part n6 slices %2, which is produced 3 times in a launch, not once");
  EXPECT_EQ(verify_error(micro + "  %6 = part(%0) {parts=4} : f32[1, 4] acts 2\n}"),
            "part n6 has 4 parts, but acts 2 times in a launch");
  EXPECT_EQ(verify_error(micro + "  %6 = relu(%1) : f32[2, 4] acts 3 {x=1} {x=2}\n}"),
            "relu n6 acts 3 times in a launch, but has 2 sets of act attributes");
  EXPECT_EQ(verify_error(micro + "  %6 = relu(%0) : f32[4, 4] acts 0\n}"),
            "relu n6 acts 0 times in a launch; must be at least 1");
  EXPECT_EQ(verify_error(R"(graph main {
  variable "w" : f32[2, 4] read %0 updated %1
  %0 = variable() {name="w", shape=[2, 4]} : f32[2, 4]
  %1 = relu(%0) : f32[2, 4] acts 2
})"),
            "the next version of variable 'w' is %1, which is produced 2 times in a launch, not once");
}

TEST(Graph, ActAttributesApplyInTheirAct) {
  OpTable ops = test_ops();
  const Graph g = parse_graph(
      "graph main {\n  %0 = fill() {from=7, shape=[4]} : f32[4] acts 2 {begin=0} {begin=4, from=8}\n}", ops);
  EXPECT_EQ(attrs_at(g.nodes[NodeId(0)], 0).print(), "{begin=0, from=7, shape=[4]}");
  EXPECT_EQ(attrs_at(g.nodes[NodeId(0)], 1).print(), "{begin=4, from=8, shape=[4]}");
}

TEST(Verify, RegionsAreVerifiedAndClosed) {
  auto with_region = [](std::string_view body) {
    return cat(
        "graph g { %0 = input() {shape=[2]} : f32[2] %1 = scan(%0) : f32[2] at \"net.cc:8\" regions { graph body(%0: "
        "f32[2]) {",
        body, "} } }");
  };
  EXPECT_EQ(verify_error(with_region("%1 = relu(%0) : f32[2] output \"r\" %1")), "no error");
  EXPECT_EQ(verify_error(with_region("%1 = relu(%0) : f32[3]")),
            "scan at net.cc:8: in its region: relu n0: result 0 is f32[3]; inferred from its operands: f32[2]");
  EXPECT_EQ(verify_error(with_region("variable \"w\" : f32[2]")),
            "scan at net.cc:8: in its region: graph body is a region and has 1 variables");
  OpTable ops = test_ops();
  Graph g = parse_graph(with_region(""), ops);
  g.nodes[NodeId(1)].regions[0].arguments.push_back(ValueId(0));
  EXPECT_THAT(error_of([&] { verify(g); }), HasSubstr("graph body: argument %0 is listed twice"));
}

}  // namespace
}  // namespace karez::graph
