// Tests of the order pass: old versions are read before they are overwritten, updates come last, and values that are
// not updates are assigned.
#include "karez/passes/scheduling/order.h"

#include <gtest/gtest.h>

#include "karez/passes/node_traits.h"
#include "karez/passes/scheduling/test_order.h"
#include "karez/passes/sharding/box.h"
#include "karez/passes/test_evaluate.h"
#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::count_op;
using testing::table;

const TensorType square{DType::f64, {4, 4}};

struct Step {
  Graph graph;
  Builder b{graph, table()};
  ValueId parameter(const std::string& name, const TensorType& type = square) {
    return testing::parameter(b, name, type);
  }
  ValueId input(const std::string& name, const TensorType& type = square) { return build::input(b, name, type); }
  void update(std::size_t variable, ValueId value) { graph.variables[variable].updated = value; }
  void sgd(std::size_t variable, ValueId g) {  // the momentum is in the next variable
    if (!lr.valid()) lr = input("lr", {DType::f64, {}});
    auto next =
        build::sgd(b, graph.variables[variable].read, graph.variables[variable + 1].read, g, lr, {.momentum = 0.9});
    update(variable, next.w), update(variable + 1, next.m);
  }
  Graph ordered() {
    verify(graph);
    Compilation c = testing::compilation(graph);
    auto old_results = testing::evaluate_graph(graph);
    run_passes(c, {"order"});
    verify(c.graph);
    EXPECT_EQ(testing::max_relative_difference(old_results, testing::evaluate_graph(c.graph)), 0);
    EXPECT_EQ(c.stream.size(), c.graph.nodes.size());
    const std::vector<bool> in_place = updates_in_place(c.graph);
    for (std::size_t i = 0; i < in_place.size(); ++i)
      EXPECT_TRUE(!c.graph.variables[i].updated.valid() || in_place[i]) << c.graph.variables[i].name;
    return std::move(c.graph);
  }
  ValueId lr;
};

bool has_edge(const Graph& graph, NodeId node, NodeId predecessor) {
  const auto& list = graph.nodes[node].after;
  return std::find(list.begin(), list.end(), predecessor) != list.end();
}

// dX = dY W^T must read the old W, although the update of W was traced first.
TEST(Order, TheInputGradientReadsTheOldWeight) {
  Step s;
  ValueId w = s.parameter("w");
  s.parameter("m");
  ValueId x = s.input("x"), dy = s.input("dy");
  s.sgd(0, build::matmul(s.b, x, dy, {.transpose_a = true}));
  ValueId dx = build::matmul(s.b, dy, w, {.transpose_b = true});
  s.graph.outputs = {{"dx", dx}};
  Graph g = s.ordered();
  NodeId reader, writer = find_node(g, "sgd");
  for (NodeId n : g.nodes.ids())
    if (g.nodes[n].attrs.has("transpose_b") && g.nodes[n].attrs.flag("transpose_b")) reader = n;
  EXPECT_LT(reader, writer);
  EXPECT_TRUE(has_edge(g, writer, reader)) << print(g);
  EXPECT_EQ(count_op(g, "copy") + count_op(g, "assign"), 0);
}

TEST(Order, ReadersThroughWindowsComeBeforeTheWriterToo) {
  Step s;
  s.graph.meshes = {Mesh::parse("data=2")};
  ValueId w = s.parameter("w");
  s.parameter("m");
  ValueId x = s.input("x");
  s.sgd(0, x);
  ValueId flat = build::reshape(s.b, build::transpose(s.b, w, {1, 0}), {16});
  ValueId wide = build::broadcast(s.b, flat, {2, 16}, {1});
  s.graph.outputs = {{"y", build::exp(s.b, wide)}};
  for (Value& value : s.graph.values) value.layout = Layout{B()};
  s.graph.value(s.graph.outputs[0].value).layout = Layout{S(0)};
  for (Variable& variable : s.graph.variables) variable.stored = Layout{B()};
  OperandLayouts operand_layouts;
  for (const Node& node : s.graph.nodes)
    operand_layouts.emplace_back(node.inputs.size(), Layout{node.op->name == "exp" ? S(0) : B()});
  s.graph = box(s.graph, table(), operand_layouts, CostTable());
  Graph g = s.ordered();
  NodeId writer = find_node(g, "sgd");
  for (const char* op : {"transpose", "reshape", "broadcast", "box", "exp"})
    EXPECT_TRUE(has_edge(g, writer, find_node(g, op))) << op << "\n" << print(g);
  EXPECT_FALSE(has_edge(g, writer, find_node(g, "box", 1))) << "the gather reads the result of exp";
  EXPECT_FALSE(has_edge(g, writer, find_node(g, "input")));
}

TEST(Order, AReaderThatNeedsTheNewVersionGetsACopyOfTheOldVersion) {
  Step s;
  ValueId w = s.parameter("w");
  ValueId next = build::add(s.b, build::exp(s.b, w), s.input("x"));
  s.update(0, next);
  ValueId delta = build::sub(s.b, next, build::transpose(s.b, w, {1, 0}));  // reads the old and the new version
  s.graph.outputs = {{"delta", delta}};
  Graph g = s.ordered();
  EXPECT_EQ(count_op(g, "assign"), 1) << "the new version has other readers";
  EXPECT_EQ(count_op(g, "copy"), 0) << "delta can be computed before the assignment";

  Step late_reader;
  w = late_reader.parameter("w");
  late_reader.parameter("m");
  late_reader.sgd(0, late_reader.input("g"));
  // sgd writes both variables. The reader of the new momentum comes after sgd and needs the old weight.
  ValueId momentum = late_reader.graph.variables[1].updated;
  late_reader.graph.outputs = {{"y", build::mul(late_reader.b, build::transpose(late_reader.b, w, {1, 0}),
                                                build::neg(late_reader.b, momentum))}};
  g = late_reader.ordered();
  EXPECT_EQ(count_op(g, "copy"), 1) << print(g);
  NodeId copy = find_node(g, "copy"), writer = find_node(g, "sgd");
  EXPECT_TRUE(has_edge(g, writer, copy));
  EXPECT_EQ(g.nodes[find_node(g, "transpose")].inputs[0], g.nodes[copy].outputs[0]);
  EXPECT_EQ(g.nodes[writer].inputs[0], g.variables[0].read);
}

TEST(Order, UpdatesComeLastAndTogether) {
  Step s;
  for (const char* name : {"a", "ma", "b", "mb", "c", "mc"}) s.parameter(name);
  ValueId x = s.input("x");
  for (std::size_t v : {0, 2, 4}) {
    s.sgd(v, build::exp(s.b, build::add(s.b, x, s.graph.variables[v].read)));
    x = build::tanh(s.b, x);
  }
  s.graph.outputs = {{"x", x}};
  Graph g = s.ordered();
  for (std::size_t k = 1; k <= 3; ++k) EXPECT_EQ(g.node(NodeId(g.nodes.size() - k)).op->name, "sgd") << print(g);
}

TEST(Order, AnUpdatedValueWithOtherReadersIsAssigned) {
  for (int variant = 0; variant < 4; ++variant) {
    Step s;
    ValueId w = s.parameter("w");
    s.parameter("other");
    s.parameter("m");
    ValueId lr = s.input("lr", {DType::f64, {}});
    auto next = build::sgd(s.b, w, s.graph.variables[2].read, s.input("g"), lr, {.momentum = 0.9});
    s.update(0, next.w), s.update(2, next.m);
    if (variant == 1) s.graph.outputs = {{"w", next.w}};
    if (variant == 2) s.graph.outputs = {{"y", build::exp(s.b, next.w)}};
    if (variant == 3) s.update(1, next.w);
    Graph g = s.ordered();
    EXPECT_EQ(count_op(g, "assign"), variant == 0 ? 0 : variant == 3 ? 2 : 1) << "variant " << variant;
    EXPECT_TRUE(variant != 1 || g.node(g.value(g.outputs[0].value).producer).op->name == "sgd");
  }
}

TEST(Order, AValueThatIsNotAnUpdateOfItsVariableIsAssignedInTheStoredLayout) {
  Step s;
  s.graph.meshes = {Mesh::parse("data=2")};
  s.parameter("w");
  s.update(0, s.input("x"));
  for (Value& value : s.graph.values) value.layout = Layout{S(0)};
  s.graph.variables[0].stored = Layout{S(0)};
  Graph g = s.ordered();
  ASSERT_EQ(count_op(g, "assign"), 1);
  EXPECT_EQ(*g.value(g.variables[0].updated).layout, Layout{S(0)});
}

TEST(Order, AWriterThatReadsTheOldVersionThroughADifferentWindowDoesNotWriteInPlace) {
  Step s;
  ValueId w = s.parameter("w");
  s.parameter("m");
  s.sgd(0, build::transpose(s.b, w, {1, 0}));  // element (i, j) would be overwritten before (j, i) reads it
  Graph g = s.ordered();
  EXPECT_EQ(count_op(g, "assign"), 1) << print(g);
  EXPECT_TRUE(has_edge(g, find_node(g, "assign"), find_node(g, "transpose")));

  Step direct;
  w = direct.parameter("w");
  direct.update(0, build::transpose(direct.b, w, {1, 0}));
  g = direct.ordered();
  EXPECT_EQ(count_op(g, "copy"), 1);
  EXPECT_EQ(count_op(g, "assign"), 1);

  Step unchanged;
  w = unchanged.parameter("w");
  unchanged.update(0, w);
  unchanged.ordered();
}

TEST(Order, VariablesThatReadEachOthersOldVersionsGetACopyInsteadOfACycle) {
  Step swapped;
  ValueId a = swapped.parameter("a"), b = swapped.parameter("b");
  swapped.update(0, b), swapped.update(1, a);
  Graph g = swapped.ordered();
  EXPECT_EQ(count_op(g, "copy"), 1) << print(g);

  Step product;  // loss = sum(a b): the gradient of each variable is the other one
  a = product.parameter("a"), product.parameter("ma"), b = product.parameter("b"), product.parameter("mb");
  product.sgd(0, b), product.sgd(2, a);
  g = product.ordered();
  EXPECT_EQ(count_op(g, "copy"), 1);
  EXPECT_EQ(count_op(g, "assign"), 0);

  Step delay_line;  // a delay line needs no copy, because b is stored before a
  a = delay_line.parameter("a"), b = delay_line.parameter("b");
  delay_line.update(0, delay_line.input("x")), delay_line.update(1, a);
  g = delay_line.ordered();
  EXPECT_EQ(count_op(g, "copy"), 0);
}

TEST(Order, ControlEdgesThatFormACycleAreAnError) {
  Step s;
  ValueId x = s.input("x"), y = build::exp(s.b, x);
  s.graph.outputs = {{"y", y}};
  s.graph.nodes[NodeId(0)].after = {NodeId(1)};
  Compilation c = testing::compilation(s.graph);
  try {
    run_passes(c, {"order"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "order: the graph has a cycle through a variable's readers and its writer");
  }
}

TEST(Order, AVariableThatIsUpdatedButHasNoNodeIsAnError) {
  Step s;
  Variable variable;
  variable.name = "w";
  variable.type = square;
  variable.updated = s.input("x");
  s.graph.variables.push_back(variable);
  Compilation c = testing::compilation(s.graph);
  try {
    run_passes(c, {"order"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "variable 'w' is updated but the graph has no node that reads it");
  }
}

}  // namespace
}  // namespace karez::passes
