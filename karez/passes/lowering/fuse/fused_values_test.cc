// Tests of the prediction which values fuse.
#include "karez/passes/lowering/fuse/fused_values.h"

#include <gtest/gtest.h>

#include "karez/passes/test_programs.h"

namespace karez::passes {
namespace {

using testing::table;

struct Program {
  Graph graph;
  Builder b{graph, table()};
  testing::AnyCatalog catalog;
  explicit Program(const char* mesh = "") {
    graph.meshes = {Mesh::parse(mesh)};
    catalog.rows = true;
  }
  ValueId input(const std::string& name, Shape shape = {8, 6}, DType dtype = DType::f32) {
    return build::input(b, name, {dtype, std::move(shape)});
  }
  void output(ValueId value, const std::string& name = "y") { graph.outputs.push_back({name, value}); }
  FusedValue of(ValueId value) const { return fused_values(graph, catalog)[value]; }
};

constexpr FusedValue stored;

TEST(FusedValues, ValuesInsideOfAChainFuse) {
  Program p;
  const ValueId x = p.input("x"), first = build::tanh(p.b, x), second = build::exp(p.b, first);
  const ValueId last = build::mul(p.b, second, second);
  p.output(last);
  EXPECT_EQ(p.of(x), stored);
  EXPECT_EQ(p.of(first), (FusedValue{.reads = 1, .written = true, .called = true}));
  EXPECT_EQ(p.of(second), (FusedValue{.reads = 2, .written = true, .called = true}));
  EXPECT_EQ(p.of(last), stored);
}

TEST(FusedValues, AValueThatIsAlsoAResultOrAStateIsStored) {
  Program p;
  const ValueId first = build::tanh(p.b, p.input("x")), second = build::exp(p.b, first);
  p.output(second);
  EXPECT_NE(p.of(first), stored);
  p.output(first, "first");
  EXPECT_EQ(p.of(first), stored);

  Program with_state;
  const ValueId w = testing::parameter(with_state.b, "w", {DType::f32, {8, 6}});
  const ValueId updated = build::tanh(with_state.b, w);
  with_state.output(build::exp(with_state.b, updated));
  EXPECT_NE(with_state.of(updated), stored);
  with_state.graph.variables[0].updated = updated;
  EXPECT_EQ(with_state.of(updated), stored);
}

TEST(FusedValues, AValueOfWhichOneConsumerCannotFuseIsStored) {
  Program p;
  const ValueId x = p.input("x"), value = build::neg(p.b, x), w = p.input("w", {6, 4});
  p.output(build::exp(p.b, value), "pointwise");
  EXPECT_NE(p.of(value), stored);
  p.output(build::matmul(p.b, value, w), "product");
  EXPECT_EQ(p.of(value), stored);
}

TEST(FusedValues, OnlyACheapValueIsComputedAgainForASecondConsumer) {
  for (const bool cheap : {true, false}) {
    Program p;
    const ValueId x = p.input("x"), value = cheap ? build::neg(p.b, x) : build::tanh(p.b, x);
    p.output(build::exp(p.b, value), "one");
    p.output(build::relu(p.b, value), "other");
    EXPECT_EQ(p.of(value).reads, cheap ? 2 : 0);
  }
}

TEST(FusedValues, ValuesOfF64FuseOnlyInRows) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    Program p;
    const ValueId first = build::tanh(p.b, p.input("x", {8, 6}, dtype));
    p.output(build::exp(p.b, first));
    EXPECT_EQ(p.of(first) != stored, dtype == DType::f32) << dtype;
  }
  Program rows;
  const ValueId x = rows.input("x", {8, 6}, DType::f64), exp = build::exp(rows.b, x);
  rows.output(build::reduce_sum(rows.b, exp, {1}));
  EXPECT_NE(rows.of(exp), stored);
}

TEST(FusedValues, ASoftmaxStoresOnlyItsResult) {
  Program p;
  p.output(build::softmax(p.b, p.input("x")));
  const FusedValues fused = fused_values(p.graph, p.catalog);
  std::string calls;
  for (NodeId n : p.graph.nodes.ids()) {
    const Node& node = p.graph.node(n);
    const bool is_result = node.outputs[0] == p.graph.outputs[0].value;
    if (node.op->role == Role::source) continue;
    EXPECT_EQ(fused[node.outputs[0]].fuses(), !is_result) << describe(p.graph, n);
    EXPECT_EQ(fused[node.outputs[0]].called, !is_result && node.op->role == Role::compute) << describe(p.graph, n);
    if (fused[node.outputs[0]].called) calls += node.op->name + " ";
  }
  EXPECT_EQ(calls, "reduce_max stop_gradient sub exp reduce_sum ");
}

TEST(FusedValues, AProductIsNotWrittenTwiceForItsBias) {
  Program p;
  const ValueId product = build::matmul(p.b, p.input("x"), p.input("w", {6, 4}));
  const ValueId sum = build::add(p.b, product, build::broadcast(p.b, p.input("bias", {4}), {8, 4}, {1}));
  p.output(build::relu(p.b, sum));
  EXPECT_EQ(p.of(product), (FusedValue{.reads = 1, .written = false, .called = true}));
  EXPECT_EQ(p.of(sum), stored) << "ReLU after a product is a separate pass over memory";
}

TEST(FusedValues, AValueThatIsSentOrReadAfterATransferIsStored) {
  for (const char* mesh : {"", "d=2", "d=1"}) {
    Program p(mesh);
    const ValueId x = p.input("x"), value = build::tanh(p.b, x), loss = build::reduce_sum(p.b, value, {0, 1});
    p.output(loss, "loss");
    p.output(build::exp(p.b, value));
    const ValueId other = build::tanh(p.b, p.input("other"));
    p.output(build::exp(p.b, other), "other");
    EXPECT_EQ(p.of(value) == stored, std::string(mesh) == "d=2") << "the loss is sent on two devices, mesh " << mesh;
    EXPECT_NE(p.of(other), stored) << mesh;
  }
  Program sent("a=2");
  sent.graph.meshes.push_back(Mesh::parse("b=2"));
  const ValueId value = build::tanh(sent.b, sent.input("x"));
  sent.output(build::exp(sent.b, value));
  EXPECT_NE(sent.of(value), stored);
  sent.output(sent.b.transfer_to_mesh(value, 1), "sent");
  EXPECT_EQ(sent.of(value), stored);
}

TEST(FusedValues, NoValueFusesIfThePassIsOff) {
  Program p;
  const ValueId first = build::tanh(p.b, p.input("x"));
  p.output(build::exp(p.b, first));
  CompileOptions options;
  EXPECT_TRUE(fused_values(p.graph, p.catalog, options)[first].fuses());
  options.check_nan = true;
  EXPECT_TRUE(fused_values(p.graph, p.catalog, options)[first].fuses());
  options.off = {"fuse"};
  EXPECT_TRUE(fused_values(p.graph, p.catalog, options).empty());
}

}  // namespace
}  // namespace karez::passes
