// Tests of gather_late: the positions in the program at which sharded parameters are gathered.
#include "karez/passes/logical/gather_late.h"

#include <gtest/gtest.h>

#include "karez/base/test_golden.h"
#include "karez/base/text.h"
#include "karez/passes/sharding/box.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::table;

// The parameter has two shards and is read by the forward pass and by a gradient.
TEST(GatherLate, AParameterIsGatheredBeforeItsReaderAndAgainForGradients) {
  Graph graph = parse_graph(R"(graph main mesh(data=2) {
  variable "w" : f32[4@data, 4] read %1
  %0 = input() {dtype="f32", name="x", shape=[2, 4]} : f32[2, 4;]
  %1 = variable() {dtype="f32", name="w", shape=[4, 4]} : f32[4@data, 4]
  %2 = tanh(%0) : f32[2, 4;]
  %3 = matmul(%2, %1) : f32[2, 4;]
  %4 = exp(%3) : f32[2, 4;] in "grad"
  %5 = matmul(%4, %1) {transpose_b=true} : f32[2, 4;] in "grad"
  output "y" %5
}
)",
                            table());
  const Layout replicated = {B()};
  OperandLayouts operand_layouts;
  for (const std::size_t operands : {0, 0, 1, 2, 1, 2}) operand_layouts.emplace_back(operands, replicated);
  const Graph result = gather_late(box(graph, table(), operand_layouts, CostTable()));
  verify(result);
  std::string out;
  for (const Node& node : result.nodes) {
    out += node.op->name;
    for (NodeId predecessor : node.after) out += cat(" after ", result.node(predecessor).op->name);
    out += "\n";
  }
  EXPECT_TRUE(golden(out, "input\nvariable\ntanh\nbox after tanh\nmatmul\nexp\nbox after exp\nmatmul\n"));
}

// Formats the nodes, one per line: number, op, move, producers of operands, and predecessors by control edges.
std::string gathered(const char* program) {
  Graph graph = parse_graph(program, table());
  for (Variable& variable : graph.variables)
    if (!variable.stored) variable.stored = graph.value(variable.read).layout;
  OperandLayouts operand_layouts;
  for (const Node& node : graph.nodes) operand_layouts.emplace_back(node.inputs.size(), Layout{B()});
  const Graph result = gather_late(box(graph, table(), operand_layouts, CostTable()));
  verify(result);
  std::string out;
  for (NodeId n : result.nodes.ids()) {
    const Node& node = result.node(n);
    out += cat(n, " ", node.op->name, node.op->name == "box" ? cat(" ", node.attrs.text("move")) : "");
    for (ValueId in : node.inputs) out += cat(" ", result.value(in).producer);
    for (NodeId predecessor : node.after) out += cat(" after ", predecessor);
    out += "\n";
  }
  return out;
}

// Two readers in the forward pass share one gathered value. All readers after the first gradient node, whether they are
// gradient nodes or not, and the outputs share a second gathered value.
TEST(GatherLate, EachHalfOfALaunchGathersAParameterOnce) {
  EXPECT_TRUE(golden(gathered(R"(graph main mesh(data=2) {
  variable "w" : f32[4@data, 4] read %1 updated %6
  %0 = input() {dtype="f32", name="x", shape=[4, 4]} : f32[4, 4;]
  %1 = variable() {dtype="f32", name="w", shape=[4, 4]} : f32[4@data, 4]
  %2 = matmul(%0, %1) : f32[4, 4;]
  %3 = matmul(%2, %1) : f32[4, 4;]
  %4 = matmul(%3, %1) : f32[4, 4;] in "grad"
  %5 = neg(%1) : f32[4, 4;]
  %6 = mul(%4, %5) : f32[4, 4;]
  output "y" %3
  output "w" %1
}
)"),
                     "0 input\n1 variable\n2 box all_gather 1\n3 matmul 0 2\n4 matmul 3 2\n5 box all_gather 1 after "
                     "4\n6 matmul 4 5\n7 neg 5\n8 mul 6 7\n"
                     "9 box slice 8\n"));
  EXPECT_TRUE(golden(gathered(R"(graph main mesh(data=2) {
  variable "w" : f32[4, 4;] read %1
  %0 = input() {dtype="f32", name="x", shape=[4, 4]} : f32[4@data, 4]
  %1 = variable() {dtype="f32", name="w", shape=[4, 4]} : f32[4, 4;]
  %2 = tanh(%0) : f32[4, 4;]
  %3 = matmul(%2, %1) : f32[4, 4;]
  output "y" %3
}
)"),
                     "0 input\n1 box all_gather 0\n2 variable\n3 tanh 1\n4 matmul 3 2\n"))
      << "no parameter is transferred";
}

}  // namespace
}  // namespace karez::passes
