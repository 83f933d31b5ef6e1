// Tests of the text of graphs: printed text parses to the same graph, and invalid text is rejected with its position.
#include "karez/graph/test_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "karez/base/test_golden.h"
#include "karez/graph/print.h"

namespace karez::graph {
namespace {

using ::testing::HasSubstr;

std::string reprint(std::string_view text) {
  OpTable ops = test_ops();
  return print(parse_graph(text, ops));
}

TEST(GraphText, EveryFeatureRoundTrips) {
  const char* text = R"(graph main mesh(data=2, model=2) mesh(pipe=2) [0:2, 1:0] mesh() {
  variable "fc.weight" : f32[784, 10@model] read %1 updated %9
  variable "fc.bias \"b\"" : f32[10;]
  variable "steps" : i64[] on mesh2 updated %10
  %0 = input() {dtype="f32", shape=[64, 784]} : f32[64@data, 784] at "net.cc:3"
  %1 = variable() {name="fc.weight", shape=[784, 10]} : f32[784, 10@model]
  %2 = matmul(%0, %1) : f32[64@data, 10; sum@model] in "fc" at "net.cc:12" after n0 n1
  %3 = relu(%2) {eps=1e-05, flag=true, list=[], text="a \"b\"\n"} : f32[64@data@model, 10]
  %9 = add(%1, %1) : f32[784, 10]
  %5, %6 = top(%3) : f32[64;], i32[64]
  %7 = input() {shape=[4]} : f32[4@pipe] on mesh1
  %8 = total(%7) : f32[; max@data@model]
  %10 = fill(%8) {dtype="i64", shape=[]} : i64[] on mesh2
  %11 = scan(%3, %9) : f32[64, 10] in "loop" at "net.cc:20" after n2 regions {
    graph body(%1: f32[64@data, 10], %0: f32[4@pipe] on mesh1) {
      %2 = relu(%1) : f32[64, 10] at "net.cc:21"
      %3 = scan(%2) : f32[64, 10] regions {
        graph "inner most" mesh(lonely=3) {
        }
        graph second {
          %0 = input() {shape=[2, 2]} : f32[2@data, 2]
        }
      }
      output "r" %3
    }
  }
  %12 = input() {shape=[2, 4]} : f32[2, 4] acts 3
  %13 = fill(%12) {shape=[4]} : f32[4] at "net.cc:30" acts 3 {begin=[0]} {begin=[4]} {begin=[8], text="}"} after n2
  %14 = sum_acts(%12) : f32[2, 4] acts 3
  %15 = fill() {shape=[4]} : f32[4]
  %16 = relu(%15) : f32[4] in "mask" setup
  output "loss" %8
  output "" %5
  output "rows" %2 : f32[64@data, 10]
  output "whole" %7 : f32[4;] on mesh1
}
)";
  EXPECT_TRUE(same_lines(reprint(text), text));
}

TEST(GraphText, WithoutSourcesTheTextHasNoModulesAndNoLines) {
  OpTable ops = test_ops();
  const char* text =
      "graph main {\n  %0 = input() {dtype=\"f32\", shape=[2]} : f32[2] in \"fc\" at \"net.cc:3\" setup\n}\n";
  EXPECT_EQ(print_without_sources(parse_graph(text, ops)),
            "graph main {\n  %0 = input() {dtype=\"f32\", shape=[2]} : f32[2] setup\n}\n");
}

TEST(GraphText, AnEmptyGraphRoundTrips) { EXPECT_TRUE(golden(reprint("graph main{}"), "graph main {\n}\n")); }

TEST(GraphText, LayoutsArePrintedInTheOrderOfMeshAxes) {
  EXPECT_TRUE(
      golden(reprint("graph g mesh(a=2, b=2) { %0 = input() : f32[8@b@a, 4] %1 = input() : f32[8, 4; sum@a sum@b] }"),
             "graph g mesh(a=2, b=2) {\n  %0 = input() : f32[8@a@b, 4]\n  %1 = input() : f32[8, 4; sum@a@b]\n}\n"));
}

TEST(GraphText, AMissingLayoutDiffersFromAllBroadcast) {
  OpTable ops = test_ops();
  Graph g = parse_graph(
      "graph g mesh(a=2) { %0 = input() : f32[8, 4] %1 = input() : f32[8, 4;] %2 = input() : f32[;] }", ops);
  EXPECT_FALSE(g.values[ValueId(0)].layout.has_value());
  EXPECT_EQ(g.values[ValueId(1)].layout, Layout{B()});
  EXPECT_EQ(g.values[ValueId(2)].type, (TensorType{DType::f32, {}}));
}

TEST(GraphText, ARegionInheritsTheMeshesOfTheOuterGraph) {
  OpTable ops = test_ops();
  Graph g = parse_graph(
      "graph g mesh(a=2) { %0 = input() : f32[4] %1 = scan(%0) : f32[4] regions { graph body(%0: f32[4@a]) {} } }",
      ops);
  EXPECT_EQ(g.nodes[NodeId(1)].regions.at(0).meshes, g.meshes);
  EXPECT_EQ(g.nodes[NodeId(1)].regions[0].value(ValueId(0)).layout, Layout{S(0)});
}

TEST(GraphText, ARegionWithArgumentsMayHaveItsOwnMesh) {
  OpTable ops = test_ops();
  Graph g = parse_graph(
      "graph g mesh(a=2) { %0 = input() : f32[4] %1 = scan(%0) : f32[4] regions { graph body(%0: f32[4@b]) mesh(b=4) "
      "{} } }",
      ops);
  const Graph& body = g.nodes[NodeId(1)].regions.at(0);
  EXPECT_EQ(body.meshes.at(0), Mesh::parse("b=4"));
  EXPECT_EQ(body.value(body.arguments.at(0)).layout, Layout{S(0)});
}

TEST(GraphText, CommentsAndWhiteSpaceAreSkipped) {
  EXPECT_TRUE(golden(reprint("# a graph\ngraph main { # nothing\n\n %0=input():f32[ 2 ]# x\n}"),
                     "graph main {\n  %0 = input() : f32[2]\n}\n"));
}

TEST(GraphText, ValueNumbersAreKept) {  // so that errors refer to values as passes print them
  const char* text = "graph main {\n  %7 = input() : f32[2]\n  %3 = relu(%7) : f32[2]\n}\n";
  EXPECT_TRUE(same_lines(reprint(text), text));
}

TEST(GraphText, AnInvalidLayoutIsPrinted) {
  OpTable ops = test_ops();
  Graph g = parse_graph("graph g mesh(a=2) { %0 = input() : f32[8, 4] }", ops);
  g.values[ValueId(0)].layout = Layout{S(7)};
  EXPECT_THAT(print(g), HasSubstr("f32[8, 4] with layout (S(7))"));
}

TEST(GraphText, RandomGraphsRoundTrip) {
  const char* environment_seed = std::getenv("KAREZ_SEED");
  std::uint64_t seed = environment_seed ? std::strtoull(environment_seed, nullptr, 10) : 7;
  std::mt19937_64 random(seed);
  auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  OpTable ops = test_ops();
  for (int round = 0; round < 100; ++round) {
    Graph g;
    g.meshes = {Mesh::parse("data=2,model=3")};
    if (pick(2) == 0) g.meshes.push_back(Mesh::parse(pick(2) ? "data=2,model=3" : ""));
    if (pick(2) == 0) g.meshes[0].devices[0].rank = 5;
    Builder builder(g, ops);
    std::vector<ValueId> values{builder.one("input", {}, {{"shape", Ints{6, 6}}})};
    for (int i = 0; i < 20; ++i) {
      builder.path = pick(2) ? cat("block", pick(3)) : "";
      builder.where = pick(2) ? cat("net.cc:", pick(99)) : "";
      const char* names[] = {"add", "matmul", "relu", "transpose"};
      const char* name = names[pick(4)];
      std::vector<ValueId> in{values[pick(values.size())]};
      if (ops.at(name).inputs == 2) in.push_back(values[pick(values.size())]);
      values.push_back(builder.add(
          name, in,
          pick(3) ? Attrs{} : Attrs{{"r", static_cast<double>(pick(1000)) / 7}, {"s", std::string("a\\\"\t")}})[0]);
      if (pick(2) == 0) g.nodes.back().after.push_back(NodeId(pick(g.nodes.size())));
      Sbp entries[] = {S(0), S(1), B(), P()};
      if (pick(2) == 0) g.values.back().layout = Layout{entries[pick(4)], entries[pick(4)]};
    }
    g.outputs.push_back({"y", values.back()});
    std::string text = print(g);
    Graph parsed_graph = parse_graph(text, ops);
    ASSERT_TRUE(same_lines(print(parsed_graph), text)) << "KAREZ_SEED=" << seed;
    ASSERT_EQ(parsed_graph.values, g.values);
    ASSERT_EQ(parsed_graph.meshes, g.meshes);
    for (NodeId n : g.nodes.ids()) ASSERT_EQ(parsed_graph.nodes[n].attrs, g.nodes[n].attrs);
  }
}

TEST(GraphText, InvalidTextIsRejectedWithItsPosition) {
  auto error = [](std::string_view text) { return error_of([&] { reprint(text); }); };
  EXPECT_EQ(error("graph main"), "graph: line 1, column 11: expected '{' at the end");
  EXPECT_EQ(error("graph main {\n  %0 = input() : f32[2]\n"), "graph: line 3, column 1: expected '}' at the end");
  EXPECT_EQ(error("graph main {} x"), "graph: line 1, column 15: unexpected text after the graph at 'x'");
  EXPECT_EQ(error("graph main {\n  %0 = matmull(%1) : f32[2]\n}"),
            "graph: line 2, column 8: unknown op 'matmull'; the nearest of 22 are: matmul, fill, total, add, "
            "flatten, input, part, relu, top, "
            "variable at 'matmull(%1) : f32[2]'");
  EXPECT_EQ(error("graph main {\n  %0 = relu(%1) : f32[2]\n}"),
            "graph: line 2, column 13: a value is used before it is defined at '%1) : f32[2]'");
  EXPECT_EQ(error("graph main {\n  %0 = relu(%0) : f32[2]\n}"),
            "graph: line 2, column 13: a value is used before it is defined at '%0) : f32[2]'");
  EXPECT_EQ(error("graph main {\n  %0 = input() : f32[2]\n  %0 = input() : f32[2]\n}"),
            "graph: line 3, column 3: a value is defined twice at '%0 = input() : f32[2]'");
  EXPECT_EQ(error("graph main {\n  variable \"w\" : f32[2] read %4\n}"),
            "graph: line 2, column 30: no node defines this value at '%4'");
  EXPECT_EQ(error("graph main { output \"y\" %0 }"),
            "graph: line 1, column 25: a value is used before it is defined at '%0 }'");
  for (const char* other_type : {"f32[4]", "f64[4@data]", "f32[2@data]"})
    EXPECT_THAT(error(cat("graph main mesh(data=2) { %0 = input() : f32[4] output \"y\" %0 : ", other_type, " }")),
                HasSubstr("column 63: the type of output %0 must be f32[4] with a layout on its mesh"));
  EXPECT_EQ(error("graph main mesh(data=2) { %0 = input() : f32[4@modle] }"),
            "graph: line 1, column 42: mesh: unknown axis 'modle'; expected one of: data at 'f32[4@modle] }'");
  EXPECT_EQ(error("graph main mesh(data=2) { %0 = input() : f32[4@data, 4@data] }"),
            "graph: line 1, column 42: the axis 'data' is used twice at 'f32[4@data, 4@data] }'");
  EXPECT_EQ(error("graph main { %0 = input() : f8[4] }"),
            "graph: line 1, column 29: unknown dtype 'f8'; expected one of: f32, f64, i32, i64, bool, bf16, f16, u8 at "
            "'f8[4] }'");
  EXPECT_THAT(error("graph main { %0 = input() : f32[-4] }"),
              HasSubstr("column 33: a size must be at least 0, got -4"));
  EXPECT_THAT(error("graph main { %0 = input() : f32[4; mean@x] }"), HasSubstr("column 36: expected sum, max or min"));
  EXPECT_THAT(error("graph main { %0 = input() : f32[4] on mesh3 }"),
              HasSubstr("column 29: mesh3 does not exist; number of meshes: 1"));
  EXPECT_THAT(error("graph main mesh(data=0) {}"), HasSubstr("column 12: mesh: axis data has size 0"));
  EXPECT_THAT(error("graph main mesh(data=2) [0:1] {}"), HasSubstr("column 12: the mesh has 2 devices, but lists 1"));
  EXPECT_THAT(error("graph main { %0, %1 = top() : f32[4] }"), HasSubstr("expected ','"));
  EXPECT_THAT(error("graph main { %0 = input() {a=} : f32[4] }"), HasSubstr("column 30: expected a number"));
  EXPECT_THAT(error("graph main { %99999999 = input() : f32[4] }"),
              HasSubstr("the number of a value exceeds the length of the text"));
}

TEST(GraphText, AShortTextCannotExhaustTheMemory) {
  OpTable ops = test_ops();
  auto error = [&](const std::string& text) { return error_of([&] { parse_graph(text, ops); }); };
  EXPECT_THAT(error("graph main mesh(data=1048576) mesh(a=1) {}"),
              HasSubstr("the meshes of the graph and its regions have more than 1048576 devices"));
  EXPECT_THAT(error("graph main mesh(data=1048576) {}"), "no error");
  EXPECT_THAT(error("graph main mesh(a=1000000000, b=1000000000, c=1000000000) {}"),
              HasSubstr("size overflows 64 bits"));
  // A region without a mesh copies the meshes of the outer graph.
  std::string regions, values;
  for (int i = 0; i < 9; ++i) regions += "graph r {} ";
  EXPECT_THAT(error("graph main mesh(data=200000) { %0 = scan() : f32[4] regions { " + regions + "} }"),
              HasSubstr("more than 1048576 devices"));
  for (int i = 0; i < 9; ++i) values += "graph r { %90 = input() : f32[4] } ";
  EXPECT_THAT(error("graph main { %0 = input() : f32[4] %1 = scan(%0) : f32[4] regions { " + values + "} }"),
              HasSubstr("the value numbers of the graph and its regions exceed the length of the text"));
}

TEST(GraphText, NoTextCrashesTheParser) {  // tests every prefix of a valid text, and changes of single characters
  OpTable ops = test_ops();
  std::string text = print(parse_graph(R"(graph main mesh(data=2) [0:1, 0:2] { variable "w" : f32[4;] read %1
    %0 = input() {a=[1, 2], s="x"} : f32[4@data] in "a" at "b" after n0 %1 = scan(%0) : f32[4] regions { graph r(%0: f32[2]) { output "o" %0 } } })",
                                       ops));
  for (std::size_t n = 0; n < text.size(); ++n) {
    EXPECT_NE(error_of([&] { parse_graph(text.substr(0, n), ops); }), n + 1 == text.size() ? "" : "no error");
    for (char c : std::string("}{(%\"@9")) {
      std::string damaged = text;
      damaged[n] = c;
      error_of([&] { print(parse_graph(damaged, ops)); });
    }
  }
}

}  // namespace
}  // namespace karez::graph
