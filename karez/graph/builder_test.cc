// Tests of the builder: types, placement, transfers, and errors with the user's source line.
#include "karez/graph/op.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/base/test_golden.h"
#include "karez/graph/test_ops.h"

namespace karez::graph {
namespace {

const Attrs square{{"shape", Ints{4, 4}}};

TEST(Builder, NodesGetTypesPathsAndSourceLines) {
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

TEST(Builder, ErrorsReportTheUsersSourceLine) {
  OpTable ops = test_ops();
  Graph graph;
  Builder b(graph, ops);
  ValueId x = b.one("input", {}, {{"shape", Ints{2, 3}}});
  b.path = "net.fc";
  b.where = "net.cc:12";
  auto error = [&](std::string_view op, std::initializer_list<ValueId> in) { return error_of([&] { b.one(op, in); }); };
  EXPECT_TRUE(golden(error("matmul", {x, x}), "matmul: inner sizes differ: 3 and 2\n  at net.cc:12 (in net.fc)"));
  EXPECT_TRUE(golden(error("matmul", {x}), "matmul expects 2 operands, got 1\n  at net.cc:12 (in net.fc)"));
  EXPECT_TRUE(golden(error("relu", {x, x}), "relu expects 1 operand, got 2\n  at net.cc:12 (in net.fc)"));
  EXPECT_TRUE(golden(error("matnul", {x, x}),
                     "unknown op 'matnul'; the nearest of 22 are: matmul, total, add, fill, flatten, input, part, "
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
  EXPECT_TRUE(golden(error("matmul", {x}), "matmul expects 2 operands, got 1\n  at net.cc:12"));
  b.where = "";
  EXPECT_EQ(error("matmul", {x}), "matmul expects 2 operands, got 1");
  EXPECT_EQ(error("top", {x}), "top must have 1 result, got 2");
}

TEST(Builder, AFailedNodeLeavesTheGraphUnchanged) {
  OpTable ops = test_ops();
  Graph graph;
  Builder b(graph, ops);
  ValueId x = b.one("input", {}, {{"shape", Ints{2, 3}}});
  std::string before = print(graph);
  error_of([&] { b.one("matmul", {x, x}); });
  EXPECT_EQ(print(graph), before);
}

TEST(Builder, ANodeIsPlacedOnTheChosenMeshOrOnTheMeshOfItsLargestOperand) {
  OpTable ops = test_ops();
  Graph graph;
  graph.meshes = {Mesh::parse(""), Mesh::parse("a=2"), Mesh::parse("b=3")};
  Builder b(graph, ops);
  auto mesh = [&](ValueId id) { return graph.value(id).mesh; };
  ValueId undecided = b.one("input", {}, square);
  b.mesh = 1;
  ValueId x = b.one("input", {}, square);
  b.mesh = 2;
  ValueId y = b.one("input", {}, square);
  EXPECT_EQ(mesh(b.one("relu", {b.one("input", {}, square)})), 2) << "a new node must be on the builder's mesh";
  b.mesh = 0;
  EXPECT_EQ(mesh(b.one("relu", {x})), 1) << "no mesh is chosen, so the node is on the mesh of its operand";
  EXPECT_EQ(mesh(b.one("relu", {undecided})), 0) << "no mesh is chosen for the operand either";
  ValueId sum = b.one("add", {undecided, y});
  EXPECT_EQ(mesh(sum), 2);
  EXPECT_EQ(graph.node(graph.value(sum).producer).inputs[0], undecided)
      << "an operand on mesh 0 is not transferred yet";
  ValueId first = b.one("add", {x, y});
  EXPECT_EQ(mesh(first), 1) << "the first of equally large operands must decide";
  ValueId transferred = graph.node(graph.value(first).producer).inputs[1];
  EXPECT_EQ(graph.node(graph.value(transferred).producer).op->role, Role::transfer);
  EXPECT_EQ(graph.node(graph.value(transferred).producer).inputs[0], y);
  EXPECT_EQ(b.transfer_to_mesh(y, 1), transferred) << "the existing transfer must be reused";
  EXPECT_EQ(b.transfer_to_mesh(x, 1), x);
  ValueId on_mesh_2 = b.one("relu", {b.transfer_to_mesh(x, 2)});
  EXPECT_EQ(mesh(on_mesh_2), 2);
  EXPECT_EQ(mesh(b.one("add", {x, on_mesh_2})), 2)
      << "both operands are available on mesh 2, because x was transferred";
  b.mesh = 2;
  ValueId column = b.one("input", {}, {{"shape", Ints{4, 1}}});
  b.mesh = 0;
  EXPECT_EQ(mesh(b.one("matmul", {x, column})), 1)
      << "the larger operand decides, although both are available on the mesh of the smaller one";
  EXPECT_EQ(mesh(b.one("total", {x})), 1);
  EXPECT_EQ(mesh(b.one("fill", {b.one("total", {x})}, {{"shape", Ints{2}}})), 1);
  b.mesh = 3;
  EXPECT_EQ(error_of([&] { b.one("input", {}, square); }), "input: mesh 3 does not exist; number of meshes: 3");
}

// gradient() removes unused nodes and renumbers the others, but does not inform the builder.
TEST(Builder, ARemovedTransferIsAddedAgain) {
  OpTable ops = test_ops();
  Graph graph;
  graph.meshes = {Mesh::parse(""), Mesh::parse("a=2"), Mesh::parse("b=3"), Mesh::parse("c=4")};
  Builder b(graph, ops);
  b.mesh = 1;
  ValueId x = b.one("input", {}, square), y = b.one("input", {}, square);
  b.mesh = 2;
  ValueId on_mesh_2 = b.one("input", {}, square);
  auto drop_last = [&] { graph.nodes.resize(graph.nodes.size() - 1), graph.values.resize(graph.values.size() - 1); };
  auto expect_transfer = [&](const char* reason) {
    const ValueId transferred = b.transfer_to_mesh(x, 2);
    ASSERT_TRUE(graph.values.has(transferred)) << reason;
    const Node& node = graph.node(graph.value(transferred).producer);
    EXPECT_EQ(graph.value(transferred).mesh, 2) << reason;
    EXPECT_EQ(node.op->role, Role::transfer) << reason;
    EXPECT_EQ(node.inputs[0], x) << reason;
    EXPECT_EQ(b.transfer_to_mesh(x, 2), transferred) << reason;
    while (graph.values.size() > 3) drop_last();
    b.transfer_to_mesh(x, 2), drop_last();  // the next value gets the number that the builder has recorded
  };
  const ValueId first = b.transfer_to_mesh(x, 2);
  drop_last();
  expect_transfer("no value has the recorded number");
  EXPECT_EQ(b.one("relu", {on_mesh_2}), first);
  expect_transfer("the result of another op has the recorded number");
  EXPECT_EQ(b.transfer_to_mesh(y, 2), first);
  expect_transfer("the transfer of another value has the recorded number");
  EXPECT_EQ(b.transfer_to_mesh(x, 3), first);
  expect_transfer("a transfer to another mesh has the recorded number");
}

}  // namespace
}  // namespace karez::graph
