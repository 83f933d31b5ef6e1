// Tests of the pool_before_relu rule: ReLU moves after max pooling, unless the change would be observable.
#include "karez/passes/logical/canonicalise.h"

#include <gtest/gtest.h>

#include "karez/base/test_golden.h"
#include "karez/passes/logical/test_canonicalise.h"

namespace karez::passes {
namespace {

using Program = testing::CanonicaliseProgram;

// Prints the graph without the first line.
std::string print_body(const Graph& graph) {
  std::string text = print(graph);
  return text.substr(text.find('\n') + 1);
}

// The program x -> relu -> max_pool -> weighted sum, with the gradient of x.
struct Pooled : Program {
  ValueId x, weights, activation, pooled, index, loss, dx;
  Pooled() {
    x = input("x", {DType::f64, {2, 3, 4, 4}});
    activation = build::relu(b, x);
    auto pool = build::max_pool(b, activation);
    pooled = pool.value, index = pool.index;
    weights = input("weights", {DType::f64, {2, 3, 2, 2}});
    loss = build::sum(b, build::mul(b, pooled, weights));
    dx = gradient(b, loss, std::vector{x})[0];
    output(loss, "loss");
    output(dx, "dx");
  }
  bool is_applied() {
    auto expected = testing::evaluate_graph(graph);
    Graph g = canonical();
    EXPECT_LT(testing::max_relative_difference(expected, testing::evaluate_graph(g)), 1e-14) << print(g);
    for (const Node& node : g.nodes)
      if (node.op->name == "relu") return g.type(node.outputs[0]).shape == Shape{2, 3, 2, 2};
    return false;
  }
};

TEST(Canonicalise, ReluMovesAfterMaxPoolingForwardAndBackward) {
  Pooled p;
  EXPECT_TRUE(
      golden(print_body(p.canonical()), R"(  %0 = input() {dtype="f64", name="x", shape=[2, 3, 4, 4]} : f64[2, 3, 4, 4]
  %1, %2 = max_pool(%0) {kernel=[2, 2], padding=[0, 0], stride=[2, 2]} : f64[2, 3, 2, 2], i32[2, 3, 2, 2]
  %3 = relu(%1) : f64[2, 3, 2, 2]
  %4 = input() {dtype="f64", name="weights", shape=[2, 3, 2, 2]} : f64[2, 3, 2, 2]
  %5 = mul(%3, %4) : f64[2, 3, 2, 2]
  %6 = reduce_sum(%5) {axes=[0, 1, 2, 3]} : f64[]
  %7 = relu_grad(%3, %4) : f64[2, 3, 2, 2] in "grad"
  %8 = max_pool_grad(%7, %2) {kernel=[2, 2], padding=[0, 0], shape=[2, 3, 4, 4], stride=[2, 2]} : f64[2, 3, 4, 4] in "grad"
  output "loss" %6
  output "dx" %8
}
)"));
  EXPECT_TRUE(Pooled().is_applied());
}

TEST(Canonicalise, ReluStaysBeforePoolingIfAnotherReaderWouldReadADifferentValue) {
  Pooled activation_read;
  activation_read.output(build::exp(activation_read.b, activation_read.activation), "active");
  EXPECT_FALSE(activation_read.is_applied());
  Pooled activation_output;
  activation_output.output(activation_output.activation, "active");
  EXPECT_FALSE(activation_output.is_applied());
  Pooled index_output;
  index_output.output(index_output.index, "index");
  EXPECT_FALSE(index_output.is_applied());
  Pooled index_read;
  index_read.output(build::cast(index_read.b, index_read.index, DType::f64), "index");
  EXPECT_FALSE(index_read.is_applied());
  Pooled pool_grad_output;
  ValueId pool_grad = pool_grad_output.graph.node(pool_grad_output.graph.value(pool_grad_output.dx).producer).inputs[1];
  pool_grad_output.output(pool_grad, "between");
  EXPECT_FALSE(pool_grad_output.is_applied());
  Pooled pooled_twice;
  auto second_pool = build::max_pool(pooled_twice.b, pooled_twice.activation, {.kernel = {4, 4}, .stride = {4, 4}});
  pooled_twice.output(second_pool.value, "again");
  EXPECT_FALSE(pooled_twice.is_applied());
  for (int which = 0; which < 5; ++which) {
    Pooled fixed;
    fixed.graph.meshes = {Mesh::parse("data=2")};
    ValueId before_relu = fixed.graph.node(fixed.graph.value(fixed.dx).producer).inputs[1];
    ValueId values[] = {fixed.activation, fixed.pooled, fixed.index, fixed.dx, before_relu};
    fixed.graph.value(values[which]).layout = Layout{S(0)};
    EXPECT_FALSE(fixed.is_applied()) << "the layout of value " << which << " is fixed";
  }
}

TEST(Canonicalise, ReluAlsoMovesAfterMaxPoolingIfThereAreNoGradients) {
  Program p;
  auto pool = build::max_pool(p.b, build::relu(p.b, p.input("x", {DType::f64, {1, 1, 4, 4}})));
  p.output(pool.value);
  Graph g = p.canonical();
  ASSERT_EQ(g.nodes.size(), 3u);
  EXPECT_EQ(g.nodes[NodeId(1)].op->name, "max_pool");
  EXPECT_EQ(g.nodes[NodeId(2)].op->name, "relu");
}

}  // namespace
}  // namespace karez::passes
