// Tests of the graph verifier.
#include "karez/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/graph/test_graph.h"

namespace karez::graph {
namespace {

using ::testing::HasSubstr;

std::string verify_error(std::string_view text) {
  OpTable ops = test_ops();
  Graph g = parse_graph(text, ops);
  return error_of([&] { verify(g); });
}

TEST(Verify, AValidGraphPasses) {
  EXPECT_EQ(verify_error(valid_graph), "no error");
  EXPECT_EQ(verify_error("graph main {}"), "no error");
}

TEST(Verify, TheNumberOfOperandsMustMatch) {
  EXPECT_EQ(
      verify_error("graph g { %0 = input() {shape=[2, 2]} : f32[2, 2] %1 = add(%0) : f32[2, 2] at \"net.cc:5\" }"),
      "add at net.cc:5 expects 2 operands, got 1");
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
  TestGraph g;
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
  TestGraph g;
  std::swap(g.graph.nodes[NodeId(1)].inputs[0], g.graph.nodes[NodeId(1)].outputs[0]);
  EXPECT_EQ(g.error(), "matmul at net.cc:3 (fc): operand 0 is %1, which no earlier node produces");
  TestGraph h;
  h.graph.nodes[NodeId(1)].inputs[1] = ValueId(9);
  EXPECT_EQ(h.error(), "matmul at net.cc:3 (fc): operand 1 is %9, which does not exist; the graph has 3 values");
}

TEST(Verify, ResultsAndProducersAgree) {
  TestGraph g;
  g.graph.values[ValueId(1)].producer = NodeId(2);
  EXPECT_EQ(g.error(), "matmul at net.cc:3 (fc): result 0 is %1, which is recorded as result 0 of node n2");
  TestGraph h;
  h.graph.nodes[NodeId(2)].outputs[0] = ValueId(1);
  EXPECT_EQ(h.error(), "add at net.cc:4: result 0 is %1, which node n1 also produces");
  TestGraph k;
  k.graph.values.push_back({.producer = NodeId(1), .output = 1, .type = {DType::f32, {}}, .mesh = 0, .layout = {}});
  EXPECT_EQ(k.error(), "graph main: value %3 names node n1 as its producer, which does not list it as a result");
  k.graph.values.back().producer = NodeId();
  EXPECT_EQ(k.error(), "no error") << "the number is unused";
}

TEST(Verify, ControlEdgesNameEarlierNodes) {
  TestGraph g;
  g.graph.nodes[NodeId(1)].after = {NodeId(1)};
  EXPECT_EQ(g.error(), "matmul at net.cc:3 (fc) must run after node n1, which does not precede it (n1)");
  g.graph.nodes[NodeId(1)].after = {NodeId(2)};
  EXPECT_EQ(g.error(), "matmul at net.cc:3 (fc) must run after node n2, which does not precede it (n1)");
}

TEST(Verify, AVariableIsReadAndWrittenOnceWithItsType) {
  EXPECT_EQ(verify_error(R"(graph g { variable "w" : f32[2] variable "w" : f32[2] })"), "two variables are called 'w'");
  EXPECT_EQ(verify_error(R"(graph g { variable "w" : f32[3] read %0 %0 = variable() {name="w", shape=[2]} : f32[2] })"),
            "variable 'w' has type f32[3], but is read as %0 of type f32[2]");
  EXPECT_EQ(verify_error(R"(graph g { variable "w" : f32[2] read %0 %0 = input() {shape=[2]} : f32[2] })"),
            "variable 'w' is read as %0, which is not the result of a 'variable' node");
  EXPECT_EQ(verify_error(R"(graph g { variable "w" : f32[2] read %0 %0 = variable() {name="v", shape=[2]} : f32[2] })"),
            "variable 'w' is read as %0, which is named 'v'");
  EXPECT_EQ(
      verify_error(R"(graph g { variable "w" : f32[2] %0 = variable() {name="w", shape=[2]} : f32[2] at "net.cc:1" })"),
      R"(variable at net.cc:1 {name="w", shape=[2]} reads a variable that the graph does not list or that another node reads)");
  EXPECT_EQ(
      verify_error(
          R"(graph g { variable "v" : f32[2] read %0 variable "w" : f32[2] read %0 %0 = variable() {shape=[2]} : f32[2] })"),
      "variable 'w' is read as %0, but another variable is read as the same value");
  TestGraph g;
  g.graph.variables[0].updated = ValueId(7);
  EXPECT_EQ(g.error(), "variable 'w' is updated to %7, which no node produces");
}

TEST(Verify, MeshesExistAndANodeHasOneMesh) {
  EXPECT_EQ(
      verify_error("graph g mesh() mesh(a=2) { %0 = input() {shape=[2]} : f32[2] %1 = input() {shape=[2]} : f32[2] on "
                   "mesh1 %2 = add(%0, %1) : f32[2] }"),
      "add n2: operand 1 is on mesh1, but operand 0 is on mesh0");
  EXPECT_EQ(
      verify_error("graph g mesh() mesh(a=2) { %0 = input() {shape=[2]} : f32[2] %1 = relu(%0) : f32[2] on mesh1 }"),
      "relu n1: result 0 is on mesh1, but its operands are on mesh0");
  EXPECT_EQ(verify_error("graph g mesh() mesh(a=2) { %0 = input() {shape=[2]} : f32[2] on mesh1 %1 = add(%0, %0) : "
                         "f32[2] on mesh1 }"),
            "no error");
  TestGraph g;
  g.graph.values[ValueId(0)].mesh = 1;
  EXPECT_EQ(g.error(), "variable n0: result 0 is on mesh1, which does not exist; number of meshes: 1");
}

TEST(Verify, OutputsExistAndHaveDistinctNames) {
  TestGraph g;
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

// With micro-batches, a value that is filled once is used by all acts, and a value that is filled in each act is joined
// before a node reads it once.
TEST(Verify, FillRatesOfOperandsMatchTheirConsumers) {
  const std::string prefix = R"(graph main {
  %0 = input() {shape=[4, 4]} : f32[4, 4]
  %1 = input() {shape=[2, 4]} : f32[2, 4] acts 3
  %2 = matmul(%1, %0) : f32[2, 4] acts 3
  %3 = sum_acts(%2) : f32[2, 4] acts 3
  %4 = join_acts(%2) {parts=3} : f32[6, 4] acts 3
  %5 = part(%0) {parts=2} : f32[2, 4] acts 2
)";
  EXPECT_EQ(verify_error(prefix + "  %6 = relu(%3) : f32[2, 4]\n  output \"y\" %6\n  output \"z\" %4\n}"), "no error");
  EXPECT_EQ(verify_error(prefix + "  %6 = relu(%2) : f32[2, 4]\n}"),
            "relu n6 acts 1 times in a launch, but operand 0, %2, is produced 3 times");
  EXPECT_EQ(verify_error(prefix + "  %6 = add(%2, %5) : f32[2, 4] acts 3\n}"),
            "add n6 acts 3 times in a launch, but operand 1, %5, is produced 2 times");
  EXPECT_EQ(verify_error(prefix + "  output \"y\" %2\n}"),
            "output 'y' is %2, which is produced 3 times in a launch, not once");
  EXPECT_EQ(verify_error(prefix + "  %6 = relu(%3) : f32[2, 4]\n  %7 = add(%2, %6) : f32[2, 4] acts 3\n}"),
            "add n7 acts 3 times in a launch, but operand 1, %6, waits for all acts of earlier nodes");
  EXPECT_EQ(verify_error(prefix + "  %6 = sum_acts(%0) : f32[4, 4] acts 3\n}"),
            "sum_acts n6 acts 3 times in a launch, but operand 0, %0, is produced 1 times");
  EXPECT_EQ(verify_error(prefix + "  %6 = part(%2) {parts=3} : f32[0, 4] acts 3\n}"),
            "part n6 slices %2, which is produced 3 times in a launch, not once");
  EXPECT_EQ(verify_error(prefix + "  %6 = part(%0) {parts=4} : f32[1, 4] acts 2\n}"),
            "part n6 has 4 parts, but acts 2 times in a launch");
  EXPECT_EQ(verify_error(prefix + "  %6 = relu(%1) : f32[2, 4] acts 3 {x=1} {x=2}\n}"),
            "relu n6 acts 3 times in a launch, but has 2 sets of act attributes");
  EXPECT_EQ(verify_error(prefix + "  %6 = relu(%0) : f32[4, 4] acts 0\n}"),
            "relu n6 acts 0 times in a launch; must be at least 1");
  EXPECT_EQ(verify_error(R"(graph main {
  variable "w" : f32[2, 4] read %0 updated %1
  %0 = variable() {name="w", shape=[2, 4]} : f32[2, 4]
  %1 = relu(%0) : f32[2, 4] acts 2
})"),
            "the next version of variable 'w' is %1, which is produced 2 times in a launch, not once");
}

TEST(Verify, RegionsAreVerified) {
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
