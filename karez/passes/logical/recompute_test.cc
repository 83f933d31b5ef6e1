// Tests of the recompute pass: the nodes of a region, the values that are kept and the values that are recomputed.
#include "karez/passes/logical/recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "karez/base/test_golden.h"
#include "karez/base/text.h"
#include "karez/passes/sharding/shard_copies.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {
using ::testing::HasSubstr;
using testing::table;

// Formats the nodes of the result, without types and source lines.
std::string nodes(std::string_view program, std::vector<std::string> globs) {
  Graph graph = recompute(parse_graph(program, table()), globs);
  verify(graph);
  std::string out;
  for (std::string_view line : split(print(graph), '\n')) {
    line = trim(line);
    if (!starts_with(line, "%")) continue;
    const std::size_t type = line.find(" : "), tail = line.find(']', type);
    out += cat(line.substr(0, type), line.substr(tail + 1), "\n");
  }
  return out;
}

// A program with two layers and their gradients. One free function is called between the layers, another after them.
constexpr const char* two_layers = R"(graph main {
  variable "w" : f32[4, 4] read %1
  %0 = input() {dtype="f32", name="x", shape=[2, 4]} : f32[2, 4]
  %1 = variable() {dtype="f32", name="w", shape=[4, 4]} : f32[4, 4]
  %2 = matmul(%0, %1) : f32[2, 4] in "block.up"
  %3 = tanh(%2) : f32[2, 4]
  %4 = matmul(%3, %1) : f32[2, 4] in "block.down"
  %5 = sigmoid(%4) : f32[2, 4]
  %6 = reduce_sum(%5) {axes=[0, 1]} : f32[]
  %7 = exp(%5) : f32[2, 4] in "grad"
  %8 = matmul(%3, %7) {transpose_a=true} : f32[4, 4] in "block.down.grad"
  %9 = matmul(%7, %1) {transpose_b=true} : f32[2, 4] in "block.down.grad"
  %10 = mul(%9, %3) : f32[2, 4] in "grad"
  %11 = matmul(%0, %10) {transpose_a=true} : f32[4, 4] in "block.up.grad"
  output "loss" %6
  output "a" %8
  output "b" %11
}
)";

TEST(Recompute, NodesBetweenAModulesNodesAreRecomputedOnceAfterThePrecedingGradient) {
  EXPECT_TRUE(golden(nodes(two_layers, {"block"}), R"(%0 = input() {dtype="f32", name="x", shape=[2, 4]}
%1 = variable() {dtype="f32", name="w", shape=[4, 4]}
%2 = matmul(%0, %1) in "block.up"
%3 = tanh(%2)
%4 = matmul(%3, %1) in "block.down"
%5 = sigmoid(%4)
%6 = reduce_sum(%5) {axes=[0, 1]}
%7 = exp(%5) in "grad"
%8 = matmul(%0, %1) in "block.up" after n7
%9 = tanh(%8)
%10 = matmul(%9, %7) {transpose_a=true} in "block.down.grad"
%11 = matmul(%7, %1) {transpose_b=true} in "block.down.grad"
%12 = mul(%11, %9) in "grad"
%13 = matmul(%0, %12) {transpose_a=true} in "block.up.grad"
)"));
}

TEST(Recompute, TheOutermostMatchingModuleIsTheRegion) {
  EXPECT_EQ(nodes(two_layers, {"block", "block.up"}), nodes(two_layers, {"block"}));
  EXPECT_EQ(nodes(two_layers, {"b*"}), nodes(two_layers, {"block"}));
  EXPECT_EQ(nodes(two_layers, {"block.*"}), nodes(two_layers, {})) << "all results of these modules are kept";
  EXPECT_EQ(nodes(two_layers, {"block.up"}), nodes(two_layers, {}));
}

TEST(Recompute, AnUnmatchedModuleBetweenNodesOfARegionIsNotInTheRegion) {
  std::string program = two_layers;
  const std::string free_function = "tanh(%2) : f32[2, 4]\n";
  program.replace(program.find(free_function), free_function.size(), "tanh(%2) : f32[2, 4] in \"other\"\n");
  EXPECT_EQ(nodes(program, {"block"}), nodes(program, {}));
}

TEST(Recompute, ValuesThatNodesOutsideOfTheRegionReadAreKept) {
  std::string program = two_layers;
  const std::string old_call = "sigmoid(%4)";
  program.replace(program.find(old_call), old_call.size(), "mul(%4, %3)");
  EXPECT_EQ(nodes(program, {"block"}), nodes(program, {})) << "a free function reads %3";
  program = two_layers;
  program.insert(program.find("  output \"a\""), "  output \"h\" %3\n");
  EXPECT_EQ(nodes(program, {"block"}), nodes(program, {})) << "%3 is an output";
}

TEST(Recompute, ValuesThatTheNextRegionReadsAreKept) {
  constexpr const char* program = R"(graph main {
  %0 = input() {dtype="f32", name="x", shape=[2, 4]} : f32[2, 4]
  %1 = tanh(%0) : f32[2, 4] in "a"
  %2 = exp(%1) : f32[2, 4] in "b"
  %3 = reduce_sum(%2) {axes=[0, 1]} : f32[]
  %4 = mul(%2, %1) : f32[2, 4] in "b.grad"
  output "loss" %3
  output "dx" %4
}
)";
  EXPECT_EQ(nodes(program, {"a", "b"}), nodes(program, {}));
}

// The whole program, including the loss, is one module: no gradient precedes the copies, so they come after the
// region's last node.
TEST(Recompute, ALossInTheRegionIsKeptAndCopiesRunAfterIt) {
  constexpr const char* program = R"(graph main {
  %0 = input() {dtype="f32", name="x", shape=[2, 4]} : f32[2, 4]
  %1 = tanh(%0) : f32[2, 4] in "net"
  %2 = exp(%1) : f32[2, 4] in "net"
  %3 = reduce_sum(%2) {axes=[0, 1]} : f32[] in "net"
  %4 = mul(%2, %1) : f32[2, 4] in "net.grad"
  output "loss" %3
  output "dx" %4
}
)";
  EXPECT_TRUE(golden(nodes(program, {"net"}), R"(%0 = input() {dtype="f32", name="x", shape=[2, 4]}
%1 = tanh(%0) in "net"
%2 = exp(%1) in "net"
%3 = reduce_sum(%2) {axes=[0, 1]} in "net"
%4 = tanh(%0) in "net" after n3
%5 = exp(%4) in "net"
%6 = mul(%5, %4) in "net.grad"
)"));
}

TEST(Recompute, ValuesThatOnlyGradientsReadAreComputedOnce) {
  constexpr const char* program = R"(graph main {
  %0 = input() {dtype="f32", name="x", shape=[4]} : f32[4]
  %1 = tanh(%0) : f32[4] in "net"
  %2 = exp(%0) : f32[4] in "net"
  %3 = neg(%1) : f32[4] in "net.grad"
  %4 = mul(%2, %3) : f32[4] in "net.grad"
  output "y" %1
  output "dx" %4
}
)";
  EXPECT_TRUE(golden(nodes(program, {"net"}), R"(%0 = input() {dtype="f32", name="x", shape=[4]}
%1 = tanh(%0) in "net"
%2 = neg(%1) in "net.grad"
%3 = exp(%0) in "net" after n2
%4 = mul(%3, %2) in "net.grad"
)"));
}

TEST(Recompute, AFunctionWithoutGradientsIsNotChanged) {
  constexpr const char* program = R"(graph main {
  %0 = input() {dtype="f32", name="x", shape=[2, 4]} : f32[2, 4]
  %1 = tanh(%0) : f32[2, 4] in "net"
  %2 = exp(%1) : f32[2, 4] in "net"
  output "y" %2
}
)";
  EXPECT_EQ(print(recompute(parse_graph(program, table()), std::vector<std::string>{"net"})), program);
}

std::string error_of(std::vector<std::string> globs) {
  try {
    check_remat(parse_graph(two_layers, table()), globs);
    return "";
  } catch (const Error& error) { return error.what(); }
}

TEST(Recompute, AGlobThatMatchesNoModuleIsAnErrorThatListsTheNearestModules) {
  EXPECT_EQ(error_of({"block", "**.up"}), "");
  EXPECT_EQ(error_of({"block", "blokc.up"}),
            "remat: 'blokc.up' matches no module of this function; there are 3: block.up, block, block.down");
  EXPECT_THAT(error_of({"block.up.grad"}), HasSubstr("matches no module")) << "gradients are in no module";
  EXPECT_THAT(error_of({"w"}), HasSubstr("matches no module")) << "a parameter is not a module";
  EXPECT_THAT(error_of({"blo["}), HasSubstr("blo["));
}

// If a weight is overwritten before recomputed nodes that need its old version can run, these read a copy of the
// weight.
TEST(Recompute, ARecomputedNodeReadsTheVersionOfAWeightThatItsOriginalRead) {
  std::string program = two_layers;
  program.replace(program.find("read %1"), 7, "read %1 updated %12");
  // Adds an in-place update, which is the last gradient node before the copies.
  program.insert(program.find("  %8 ="), "  %12 = exp(%1) : f32[4, 4] in \"grad\"\n");
  Compilation c = testing::compilation(parse_graph(program, table()));
  c.options.remat = {"block"};
  compile(c);
  bool copied = false;
  for (const Node& node : c.graph.nodes) copied |= node.op->name == "copy";
  EXPECT_TRUE(copied) << print(c.graph);
}

TEST(Recompute, CopiesHaveTheLayoutsOfTheirOriginalsAndNoLayoutChanges) {
  for (const char* mesh : {"data=2,model=2", "model=4"}) {
    Graph graph = testing::mlp_step(Mesh::parse(mesh), {16, 32, 32, 8}, 12);
    for (Node& node : graph.nodes)
      if (node.path == "fc1" || node.path == "fc2" || node.path == "fc1.grad" || node.path == "fc2.grad")
        node.path = "body." + node.path;
    CostTable costs;
    const ShardedGraph sharded = shard(graph, costs);
    Graph recomputed = recompute(graph, std::vector<std::string>{"body"});
    ASSERT_GT(recomputed.nodes.size(), graph.nodes.size());
    const ShardedGraph sharded_copies = shard_copies(std::move(recomputed), costs);
    EXPECT_EQ(sharded_copies.cost, sharded.cost);
    EXPECT_EQ(sharded_copies.operand_layouts.size(), sharded_copies.graph.nodes.size());
    auto layouts = [](const Graph& program) {
      std::set<std::string> out;
      for (const Value& value : program.values)
        out.insert(cat(program.node(value.producer).op->name, program.node(value.producer).path,
                       print(value.type, program.meshes[0], *value.layout)));
      return out;
    };
    EXPECT_EQ(layouts(sharded_copies.graph), layouts(sharded.graph)) << mesh;
    for (std::size_t v = 0; v < graph.variables.size(); ++v)
      EXPECT_EQ(sharded_copies.graph.variables[v].stored, sharded.graph.variables[v].stored);
  }
}

}  // namespace
}  // namespace karez::passes
