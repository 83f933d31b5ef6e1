// Tests the text of gradients: the nodes that are built, the nodes that are omitted, and errors.
#include "karez/ops/gradient.h"
#include "karez/base/text.h"

#include <gtest/gtest.h>

#include "karez/base/test_golden.h"
#include "karez/ops/all_ops.h"
#include "karez/ops/compose.h"
#include "karez/ops/scan.h"

namespace karez::ops {
namespace {

using namespace build;

struct Program {
  OpTable ops = all_ops();
  Graph graph;
  Builder b{graph, ops};
  std::size_t forward = 0;  // number of nodes before the gradient

  ValueId state(const char* name, TensorType type) {
    ValueId read = variable(b, name, type);
    graph.variables.push_back({.name = name, .type = type, .mesh = 0, .stored = {}, .read = read, .updated = {}});
    return read;
  }
  ValueId f32(const char* name, Shape shape) { return state(name, {DType::f32, std::move(shape)}); }
  std::vector<ValueId> grad(ValueId loss, std::vector<ValueId> wrt) {
    forward = graph.nodes.size();
    auto out = gradient(b, loss, wrt);
    verify(graph);
    return out;
  }
  // Returns the lines of the new nodes without their types.
  std::string added() const {
    std::string text;
    auto lines = split(print(graph), '\n');
    for (std::size_t i = 1 + graph.variables.size() + forward; i < 1 + graph.variables.size() + graph.nodes.size(); ++i)
      text += cat(trim(lines[i].substr(0, lines[i].find(" : "))), "\n");
    return text;
  }
  std::string error(ValueId loss, std::vector<ValueId> wrt) {
    try {
      gradient(b, loss, wrt);
      return "";
    } catch (const Error& error) { return error.what(); }
  }
};

TEST(Gradient, GradientsEndAtStopsButReachTheStopsThemselves) {
  Program p;
  ValueId w = p.f32("w", {4}), v = p.f32("v", {4}), lr = constant(p.b, {DType::f32, {}}, 1);
  ValueId next = sgd(p.b, w, v, mul(p.b, w, v), lr).w;  // an op without gradient
  ValueId loss = build::sum(p.b, mul(p.b, next, v));
  const ValueId stops[] = {next};
  auto gradient_ops = [&](std::vector<ValueId> wrt) {
    auto out = gradient(p.b, loss, wrt, {.stops = stops});
    return p.graph.node(p.graph.value(out[0]).producer).op->name + " of " +
           p.graph.node(p.graph.value(out.back()).producer).op->name;
  };
  EXPECT_EQ(gradient_ops({v, next}), "mul of mul");
  EXPECT_EQ(gradient_ops({w}), "broadcast of broadcast") << "zeros, because no gradient flows through a stop";
  EXPECT_NE(p.error(loss, {w}).find("no gradient passes through sgd"), std::string::npos)
      << "without the stop, the gradient must fail at sgd";
}

TEST(Gradient, TheWeightGradientOfAPerceptronNeedsNoInputGradient) {
  Program p;
  p.b.where = "net.cc:1";
  ValueId x = input(p.b, "x", {DType::f32, {8, 4}});
  p.b.path = "fc";
  p.b.where = "net.cc:2";
  ValueId w = p.f32("fc.weight", {3, 4});
  ValueId y = relu(p.b, linear(p.b, x, w));
  p.b.path = "";
  p.b.where = "net.cc:3";
  ValueId loss = build::sum(p.b, y);
  ValueId dw = p.grad(loss, {w})[0];
  p.graph.outputs.push_back({"dw", dw});
  EXPECT_TRUE(golden(print(p.graph), R"(graph main {
  variable "fc.weight" : f32[3, 4] read %1
  %0 = input() {dtype="f32", name="x", shape=[8, 4]} : f32[8, 4] at "net.cc:1"
  %1 = variable() {dtype="f32", name="fc.weight", shape=[3, 4]} : f32[3, 4] in "fc" at "net.cc:2"
  %2 = matmul(%0, %1) {transpose_b=true} : f32[8, 3] in "fc" at "net.cc:2"
  %3 = relu(%2) : f32[8, 3] in "fc" at "net.cc:2"
  %4 = reduce_sum(%3) {axes=[0, 1]} : f32[] at "net.cc:3"
  %5 = constant() {dtype="f32", shape=[], value=1.0} : f32[] in "grad" at "net.cc:3"
  %6 = broadcast(%5) {dims=[], shape=[8, 3]} : f32[8, 3] in "grad" at "net.cc:3"
  %7 = relu_grad(%3, %6) : f32[8, 3] in "fc.grad" at "net.cc:2"
  %8 = matmul(%7, %0) {transpose_a=true} : f32[3, 4] in "fc.grad" at "net.cc:2"
  output "dw" %8
}
)"));
  EXPECT_EQ(p.b.path, "") << "the builder's path is restored";
  EXPECT_EQ(p.b.where, "net.cc:3");
}

TEST(Gradient, TheGradientOfEveryTransposeOfAProductConsistsOfProducts) {
  auto products = [](bool ta, bool tb) {
    Program p;
    ValueId a = p.f32("a", ta ? Shape{4, 2} : Shape{2, 4}), w = p.f32("w", tb ? Shape{3, 4} : Shape{4, 3});
    ValueId loss = build::sum(p.b, matmul(p.b, a, w, {ta, tb}));
    p.grad(loss, {a, w});
    std::string text = p.added();
    return text.substr(text.find("%6"));  // after the seed and its broadcast
  };
  EXPECT_TRUE(golden(products(false, false),
                     "%6 = matmul(%5, %1) {transpose_b=true}\n%7 = matmul(%0, %5) {transpose_a=true}\n"));
  EXPECT_TRUE(golden(products(false, true), "%6 = matmul(%5, %1)\n%7 = matmul(%5, %0) {transpose_a=true}\n"));
  EXPECT_TRUE(golden(products(true, false), "%6 = matmul(%1, %5) {transpose_b=true}\n%7 = matmul(%0, %5)\n"));
  EXPECT_TRUE(golden(products(true, true),
                     "%6 = matmul(%1, %5) {transpose_a=true, transpose_b=true}\n%7 = matmul(%5, %0) {transpose_a=true, "
                     "transpose_b=true}\n"));
}

TEST(Gradient, AConvolutionInTheFirstLayerHasNoInputGradient) {
  Program p;
  ValueId x = input(p.b, "x", {DType::f32, {2, 1, 4, 4}}), w = p.f32("w", {3, 1, 3, 3}), bias = p.f32("b", {3});
  ValueId loss = build::sum(p.b, max_pool(p.b, conv2d_bias(p.b, x, w, bias)).value);
  p.grad(loss, {w, bias});
  EXPECT_TRUE(golden(p.added(), R"(%9 = constant() {dtype="f32", shape=[], value=1.0}
%10 = broadcast(%9) {dims=[], shape=[2, 3, 1, 1]}
%11 = max_pool_grad(%10, %7) {kernel=[2, 2], padding=[0, 0], shape=[2, 3, 2, 2], stride=[2, 2]}
%12 = reduce_sum(%11) {axes=[0, 2, 3]}
%13 = conv2d_grad_weight(%0, %11) {dilation=[1, 1], kernel=[3, 3], padding=[0, 0], stride=[1, 1]}
)"));
}

TEST(Gradient, ContributionsOfEveryConsumerAreAdded) {
  Program p;
  ValueId x = p.f32("x", {3});
  ValueId loss = build::sum(p.b, mul(p.b, x, x));
  p.grad(loss, {x});
  EXPECT_TRUE(golden(p.added(), R"(%3 = constant() {dtype="f32", shape=[], value=1.0}
%4 = broadcast(%3) {dims=[], shape=[3]}
%5 = mul(%4, %0)
%6 = mul(%0, %4)
%7 = add(%5, %6)
)"));
}

TEST(Gradient, ValuesThatTheLossDoesNotDependOnGetZeroGradients) {
  Program p;
  ValueId x = p.f32("x", {3}), unrelated = p.f32("other", {2, 2}), d = p.state("d", {DType::f64, {}});
  ValueId loss = build::sum(p.b, x);
  auto grads = p.grad(loss, {unrelated, x, d});
  EXPECT_EQ(p.graph.type(grads[0]), (TensorType{DType::f32, {2, 2}}));
  EXPECT_EQ(p.graph.type(grads[2]), (TensorType{DType::f64, {}}));
  EXPECT_TRUE(golden(p.added(), R"(%4 = constant() {dtype="f32", shape=[], value=1.0}
%5 = broadcast(%4) {dims=[], shape=[3]}
%6 = constant() {dtype="f32", shape=[], value=0.0}
%7 = broadcast(%6) {dims=[], shape=[2, 2]}
%8 = constant() {dtype="f64", shape=[], value=0.0}
)"));
}

TEST(Gradient, TheGradientOfTheLossIsOne) {
  Program p;
  ValueId x = p.f32("x", {});
  EXPECT_EQ(p.grad(x, {x}).size(), 1u);
  EXPECT_EQ(p.added(), "%1 = constant() {dtype=\"f32\", shape=[], value=1.0}\n");
}

TEST(Gradient, GradientsOfOpsThatMoveElementsMoveElements) {
  Program p;
  ValueId x = p.f32("x", {4, 6});
  ValueId t = transpose(p.b, reshape(p.b, slice(p.b, x, {1, 0}, {2, 6}), {2, 3, 2}), {2, 0, 1});
  ValueId parts[] = {t, pad(p.b, t, {0, 0, 1}, {0, 0, 0})};
  p.grad(build::sum(p.b, concat(p.b, parts, 2)), {x});
  EXPECT_TRUE(golden(p.added(), R"(%7 = constant() {dtype="f32", shape=[], value=1.0}
%8 = broadcast(%7) {dims=[], shape=[2, 2, 7]}
%9 = slice(%8) {begin=[0, 0, 0], size=[2, 2, 3]}
%10 = slice(%8) {begin=[0, 0, 3], size=[2, 2, 4]}
%11 = slice(%10) {begin=[0, 0, 1], size=[2, 2, 3]}
%12 = add(%9, %11)
%13 = transpose(%12) {perm=[1, 2, 0]}
%14 = reshape(%13) {shape=[2, 6]}
%15 = pad(%14) {high=[1, 0], low=[1, 0], value=0.0}
)"));
}

TEST(Gradient, TheGradientOfATableIsAScatterAdd) {
  Program p;
  ValueId table = p.f32("table", {10, 4}), index = input(p.b, "index", {DType::i64, {3}});
  p.grad(build::sum(p.b, gather(p.b, table, index)), {table});
  EXPECT_TRUE(golden(p.added(), R"(%4 = constant() {dtype="f32", shape=[], value=1.0}
%5 = broadcast(%4) {dims=[], shape=[3, 4]}
%6 = scatter_add(%1, %5) {rows=10}
)"));
}

TEST(Gradient, MaximaShareTheGradientEqually) {
  Program p;
  ValueId x = p.f32("x", {3, 4});
  p.grad(build::sum(p.b, reduce_max(p.b, x, {1})), {x});
  EXPECT_TRUE(golden(p.added(), R"(%3 = constant() {dtype="f32", shape=[], value=1.0}
%4 = broadcast(%3) {dims=[], shape=[3]}
%5 = broadcast(%1) {dims=[0], shape=[3, 4]}
%6 = pointwise(%0, %5) {expr="x0 == x1 || x0 != x0"}
%7 = cast(%6) {to="f32"}
%8 = reduce_sum(%7) {axes=[1]}
%9 = div(%4, %8)
%10 = broadcast(%9) {dims=[0], shape=[3, 4]}
%11 = constant() {dtype="f32", shape=[], value=0.0}
%12 = broadcast(%11) {dims=[], shape=[3, 4]}
%13 = select(%6, %10, %12)
)"));
}

// Ties are counted over all reduced axes, and the gradient of each result is broadcast along all of them.
TEST(Gradient, TiedMinimaOverTwoAxesShareTheGradient) {
  Program p;
  ValueId x = p.f32("x", {3, 4, 2});
  p.grad(build::sum(p.b, reduce_min(p.b, x, {0, 2})), {x});
  EXPECT_TRUE(golden(p.added(), R"(%3 = constant() {dtype="f32", shape=[], value=1.0}
%4 = broadcast(%3) {dims=[], shape=[4]}
%5 = broadcast(%1) {dims=[1], shape=[3, 4, 2]}
%6 = pointwise(%0, %5) {expr="x0 == x1 || x0 != x0"}
%7 = cast(%6) {to="f32"}
%8 = reduce_sum(%7) {axes=[0, 2]}
%9 = div(%4, %8)
%10 = broadcast(%9) {dims=[1], shape=[3, 4, 2]}
%11 = constant() {dtype="f32", shape=[], value=0.0}
%12 = broadcast(%11) {dims=[], shape=[3, 4, 2]}
%13 = select(%6, %10, %12)
)"));
}

TEST(Gradient, NoGradientFlowsThroughComparisonsOrStopGradient) {
  Program p;
  ValueId x = p.f32("x", {3});
  ValueId mask = gt(p.b, x, stop_gradient(p.b, exp(p.b, x)));
  ValueId y = select(p.b, mask, x, full_like(p.b, x, 0));
  p.grad(build::sum(p.b, y), {x});
  EXPECT_TRUE(golden(p.added(), R"(%8 = constant() {dtype="f32", shape=[], value=1.0}
%9 = broadcast(%8) {dims=[], shape=[3]}
%10 = select_grad(%3, %9)
)"));
}

TEST(Gradient, AGradientOfAGradientIsDerivedFromItsExpression) {
  Program p;
  ValueId x = p.f32("x", {3});
  ValueId first = p.grad(build::sum(p.b, tanh(p.b, x)), {x})[0];
  p.grad(build::sum(p.b, mul(p.b, first, first)), {x});
  std::string text = p.added();
  // tanh_grad(r, dy) = (1 - r) (1 + r) dy, with respect to r: (-(1 + r) + (1 - r)) dy; the gradient then flows through
  // tanh.
  EXPECT_NE(text.find("pointwise("), std::string::npos) << text;
  EXPECT_NE(text.find("{expr=\"(-(1 + x0) + (1 - x0)) * x1 * x2\"}"), std::string::npos) << text;
  EXPECT_NE(text.find("tanh_grad(%1,"), std::string::npos) << text;
}

TEST(Gradient, TheGradientOfAPointwiseExpressionReadsOnlyRequiredValues) {
  Program p;
  ValueId in[] = {p.f32("a", {3}), p.f32("b", {3}), p.f32("c", {3})};
  ValueId y = pointwise(p.b, "x0 * x1 + x2", in);
  p.grad(build::sum(p.b, y), {in[0], in[2]});
  EXPECT_TRUE(golden(p.added(), R"(%5 = constant() {dtype="f32", shape=[], value=1.0}
%6 = broadcast(%5) {dims=[], shape=[3]}
%7 = pointwise(%1, %6) {expr="x0 * x1"}
)"));
}

TEST(Gradient, ALossMustBeAFloatScalar) {
  Program p;
  p.b.where = "net.cc:7";
  ValueId x = p.f32("x", {3});
  ValueId i = reduce_sum(p.b, cast(p.b, x, DType::i64), {0});
  EXPECT_EQ(p.error(x, {x}),
            "the loss of a gradient must be a float scalar, f32[] or f64[], got f32[3] (variable at net.cc:7)");
  EXPECT_EQ(p.error(i, {x}),
            "the loss of a gradient must be a float scalar, f32[] or f64[], got i64[] (reduce_sum at net.cc:7)");
  EXPECT_EQ(p.error(build::sum(p.b, x), {i}), "no gradient exists with respect to i64[] (reduce_sum at net.cc:7)");
}

TEST(Gradient, AnOpWithoutGradientIsReportedWithItsSourceLine) {
  Program p;
  ValueId x = p.f32("x", {3});
  p.b.where = "net.cc:9";
  const ValueId lr = build::scalar(p.b, DType::f32, 0.1);
  EXPECT_EQ(p.error(build::sum(p.b, sgd(p.b, x, x, x, lr).w), {x}),
            "sgd at net.cc:9: no gradient passes through sgd: an update; apply stop_gradient to its operand to end the "
            "path");
  const ValueId stopped = stop_gradient(p.b, x);
  EXPECT_EQ(p.error(build::sum(p.b, sgd(p.b, stopped, stopped, stopped, lr).w), {x}), "");
}

TEST(Gradient, EveryOperandOfAConcatGetsASliceOfTheGradient) {
  Program p;
  ValueId a = p.f32("a", {2, 3}), b = p.f32("b", {2, 2}), c = p.f32("c", {2, 4});
  ValueId parts[] = {a, b, c};
  p.grad(build::sum(p.b, concat(p.b, parts, 1)), {a, b, c});
  const std::string added = p.added();
  for (const char* slice :
       {"{begin=[0, 0], size=[2, 3]}", "{begin=[0, 3], size=[2, 2]}", "{begin=[0, 5], size=[2, 4]}"})
    EXPECT_NE(added.find(slice), std::string::npos) << added;
}

// The body is h <- h * w + x for each row x of the sequence.
TEST(Gradient, TheGradientOfAScanIsAReverseScanWithSumsForOuterValues) {
  Program p;
  const TensorType row_type{DType::f32, {4}};
  ValueId h = p.f32("h", {4}), x = p.f32("x", {3, 4}), w = p.f32("w", {4});
  Graph body;
  body.name = "step";
  body.meshes = p.graph.meshes;
  for (int i = 0; i < 3; ++i) {
    body.arguments.emplace_back(body.values.size());
    body.values.push_back({.producer = {}, .output = 0, .type = row_type, .mesh = 0, .layout = {}});
  }
  Builder inner(body, p.ops);
  const ValueId next = add(inner, mul(inner, body.arguments[0], body.arguments[2]), body.arguments[1]);
  body.outputs.push_back({"out0", next, std::nullopt});
  const ValueId operands[] = {h, x, w};
  const std::vector<ValueId> last = scan(p.b, std::move(body), operands, {.carries = 1, .sequences = 1, .trips = 3});
  const std::vector<ValueId> gradients = p.grad(build::sum(p.b, last[0]), {h, x, w});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(p.b.type(gradients[i]), p.b.type(operands[i]));
  const Node& back = p.graph.node(p.graph.value(gradients[0]).producer);
  const ScanShape shape = scan_shape(back.attrs);
  EXPECT_EQ(std::tuple(back.op->name, shape.carries, shape.sequences, shape.trips, shape.reverse),
            std::tuple("scan", 2, 2, 3, true))
      << "the carries are the gradients of h and w; the sequences are h before each trip, and x";
  EXPECT_EQ(shape.rows, std::vector<TensorType>{row_type}) << "rows of the gradient of x";
  EXPECT_EQ(back.regions.at(0).outputs.size(), 3u);
  EXPECT_EQ(back.regions.at(0).arguments.size(), 5u);
}

TEST(Gradient, ExplicitSlopesReplaceTheDerivativesOfAnExpression) {
  Program p;
  const ValueId x = p.f32("x", {4}), y = p.f32("y", {4});
  const auto loss_with_slopes = [&](const std::string& slopes) {
    return build::sum(p.b, p.b.one("pointwise", {x, y}, Attrs().set("expr", "x0 * x1").set("slopes", slopes)));
  };
  EXPECT_EQ(p.error(loss_with_slopes("x1"), {x, y}), "pointwise: 2 operands require one slope each, got 'x1'");
  p.grad(loss_with_slopes("x1;2 * x0"), {x, y});
  EXPECT_TRUE(golden(p.added(), R"(%8 = constant() {dtype="f32", shape=[], value=1.0}
%9 = broadcast(%8) {dims=[], shape=[4]}
%10 = pointwise(%1, %9) {expr="x0 * x1"}
%11 = pointwise(%0, %9) {expr="2 * x0 * x1"}
)"));
}

}  // namespace
}  // namespace karez::ops
