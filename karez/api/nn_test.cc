// Tests of modules and optimisers: names, shapes, graphs of initial values, and the program of one small step.
#include "karez/api/nn.h"
#include "karez/api/namespace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "karez/api/compile.h"
#include "karez/api/optim.h"
#include "karez/api/testing/test_texts.h"
#include "karez/api/trace/trace.h"
#include "karez/ops/all_ops.h"

namespace karez {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Block : nn::Module {
  Block(nn::Module& parent, const std::string& name) : Module(parent, name) {}
  nn::Linear fc1{*this, "fc1", 6, 4}, fc2{*this, "fc2", 4, 2, false};
  Tensor operator()(Tensor x) { return fc2(tanh(fc1(x))); }
};
struct Net : nn::Module {
  explicit Net(DType dtype = DType::f32) : Module(dtype) {}
  nn::Conv2d conv{*this, "conv", 1, 3, 3, {.stride = 2, .padding = 1}};
  Block block{*this, "block"};
};

std::vector<std::string> names_of(const nn::Module& module) {
  std::vector<std::string> out;
  for (const auto& [name, parameter] : module.named_parameters()) out.push_back(cat(name, " ", parameter.type()));
  return out;
}

TEST(Module, ParametersAreNamedByPath) {
  Net net;
  EXPECT_THAT(names_of(net),
              ElementsAre("conv.weight f32[3, 1, 3, 3]", "conv.bias f32[3]", "block.fc1.weight f32[4, 6]",
                          "block.fc1.bias f32[4]", "block.fc2.weight f32[2, 4]"));
  EXPECT_THAT(names_of(net.block),
              ElementsAre("block.fc1.weight f32[4, 6]", "block.fc1.bias f32[4]", "block.fc2.weight f32[2, 4]"));
  EXPECT_EQ(net.parameter("conv.bias"), net.conv.bias);
  EXPECT_THAT(error_of([&] { net.parameter("conv.bais"); }),
              HasSubstr("unknown parameter 'conv.bais'; there are 5: conv.bias, conv.weight, "));
}

TEST(Module, AllWeightsHaveTheDtypeOfTheRoot) {
  Net net(DType::f64);
  for (const auto& parameter : net.parameters()) EXPECT_EQ(parameter.dtype(), DType::f64);
  EXPECT_THAT(error_of([] { Net(DType::i32); }), HasSubstr("the dtype of a model must be f32 or f64, got i32"));
}

TEST(Module, EveryPathBeginsWithTheNameOfTheRoot) {
  struct Named : nn::Module {
    Named() : Module("teacher") {}
    nn::Linear fc{*this, "fc", 2, 2};
  } net;
  EXPECT_EQ(net.fc.weight.name(), "teacher.fc.weight");
}

TEST(Module, TwoChildrenWithTheSameNameAreRejected) {
  struct Twice : nn::Module {
    nn::Linear a{*this, "fc", 2, 2}, b{*this, "fc", 2, 2};
  };
  EXPECT_EQ(error_of([] { Twice(); }), "two modules are named 'fc'");
  struct Dotted : nn::Module {
    nn::Linear a{*this, "f.c", 2, 2};
  };
  EXPECT_THAT(error_of([] { Dotted(); }), HasSubstr("must not be empty or contain a dot"));
}

TEST(Sequential, LayersAreNumberedAndTheirNodesHaveTheUsersLine) {
  struct Net : nn::Module {
    nn::Sequential body{*this, "body"};
    Net() { body.add<nn::Flatten>().add<nn::Linear>(6, 4).add<nn::ReLU>().add<nn::Dropout>(0.5).add<nn::Linear>(4, 2); }
  } net;
  EXPECT_EQ(net.parameters()[0].name(), "body.1.weight");
  EXPECT_EQ(net.parameters()[2].name(), "body.4.weight");
  OpTable ops = all_ops();
  Trace trace(ops, {});
  Trace::Scope scope(trace);
  Tensor x = trace.input("x", {DType::f32, {5, 2, 3}});
  std::string line;
  Tensor y = (line = print(SourceLine::current()), net.body(x));
  EXPECT_EQ(y.shape(), (Shape{5, 2}));
  for (const auto& node : trace.graph.nodes)
    EXPECT_EQ(node.where, node.op->name == "input" ? "" : line) << node.op->name;
  EXPECT_EQ(trace.graph.nodes.back().path, "body.4");
}

TEST(Layers, ResultsHaveTheSameShapesAsInPyTorch) {
  Net net;
  OpTable ops = all_ops();
  Trace trace(ops, {});
  Trace::Scope scope(trace);
  EXPECT_EQ(net.conv(trace.input("x", {DType::f32, {2, 1, 28, 28}})).shape(), (Shape{2, 3, 14, 14}));
  EXPECT_EQ(net.block(trace.input("y", {DType::f32, {5, 6}})).shape(), (Shape{5, 2}));
}

TEST(Layers, MismatchesAreErrors) {
  struct Net : nn::Module {
  } net;
  EXPECT_THAT(error_of([&] { nn::MultiHeadAttention(net, "a", 10, 4); }),
              HasSubstr("MultiHeadAttention 'a': 4 heads do not divide a width of 10"));
  EXPECT_THAT(error_of([&] { nn::MultiHeadAttention(net, "b", 12, 4, {.kv_heads = 3}); }),
              HasSubstr("3 key heads do not divide 4 query heads"));
  EXPECT_THAT(error_of([&] { nn::MultiHeadAttention(net, "c", 12, 4, {.rotary = true}); }),
              HasSubstr("rotary positions need an even head size, got width / heads = 3"));
  EXPECT_THAT(error_of([&] { nn::LayerNorm(net, "d", {}); }),
              HasSubstr("LayerNorm 'd': shape must list the sizes of the last dimensions, each at least 1; got []"));
  EXPECT_THAT(error_of([&] { nn::RMSNorm(net, "e", {4}, -1); }), HasSubstr("RMSNorm 'e': eps is -1"));
  EXPECT_THAT(error_of([&] { nn::Embedding(net, "f", 0, 4); }),
              HasSubstr("Embedding 'f': count and width must be at least 1, got 0 and 4"));
}

TEST(Initial, WeightsDependOnlyOnTheirSitesAndStayWithinTheBound) {
  struct Net : nn::Module {
    nn::Linear a{*this, "a", 16, 4}, b{*this, "b", 16, 4};
  } net;
  const auto &a = net.a, &b = net.b;
  OpTable ops = all_ops();
  Trace trace(ops, {});
  Builder& builder = trace.builder;
  ValueId state = build::constant(builder, {DType::i64, {2}}, 1);
  a.weight.init()(builder, a.weight.type(), a.weight.site(), state);
  a.weight.init()(builder, a.weight.type(), a.weight.site(), state);
  b.weight.init()(builder, b.weight.type(), b.weight.site(), state);
  std::vector<std::int64_t> sites;
  std::vector<double> numbers;
  for (const auto& node : trace.graph.nodes) {
    if (node.op->name == "random_uniform") sites.push_back(node.attrs.integer("site"));
    if (node.op->name == "constant" && node.outputs != std::vector{state}) numbers.push_back(node.attrs.real("value"));
  }
  ASSERT_EQ(sites.size(), 3u);
  EXPECT_EQ(sites[0], sites[1]);
  EXPECT_NE(sites[0], sites[2]);
  EXPECT_THAT(numbers,
              ElementsAre(0.5, 0.25, 0.5, 0.25, 0.5, 0.25));  // the width of the range, and the bound 1 / sqrt(16)
}

TEST(Initial, EqualModelsHaveDifferentSitesUntilASeedRestartsTheSites) {
  const auto sites = [] {
    Net net;
    std::vector<std::string> out;
    for (const Parameter& p : net.parameters()) out.push_back(p.site());
    return out;
  };
  std::vector<std::string> first;
  restart_sites();
  {
    World world;
    first = sites();
    EXPECT_NE(sites(), first);
    world.seed(4);
    EXPECT_EQ(sites(), first);
    World other;
  }
  World world;
  optim::Adam adam(Net().parameters(), {});  // its state has no site
  world.seed(1);
  EXPECT_EQ(sites(), first);
  std::thread([&] { EXPECT_EQ(sites(), (std::vector<std::string>{"#0", "#1", "#2", "#3", "#4"})); }).join();
}

TEST(Parameter, AParameterIsRenamedWithItsStateAndKeepsItsValue) {
  World world;
  Parameter w("weight", {DType::f32, {2}}, constant_init(1));
  optim::SGD sgd({w}, {.lr = 0.5, .momentum = 0.5});
  auto step = compile(world.mesh(), [&](Tensor x) {
    Tensor loss = sum(w * x);
    sgd.step(grad(loss, {w}));
    return loss;
  });
  EXPECT_EQ(step(HostArray::of<float>({2}, {1, 1})).item(), 2);
  const std::string& old_name = w.name();
  w.set_name("net.weight");
  EXPECT_EQ(old_name, "weight");
  EXPECT_THAT(world.variables(), ElementsAre("net.weight", "sgd.m.net.weight"));
  EXPECT_EQ(step(HostArray::of<float>({2}, {1, 1})).item(), 1);
  EXPECT_EQ(world.read("net.weight").data<float>()[0], -0.25f);
  EXPECT_EQ(world.read(w).data<float>()[0], -0.25f);
  EXPECT_THAT(error_of([&] { world.read("weight"); }), HasSubstr("no variable 'weight'"));
}

TEST(Embedding, ThePaddingRowIsInitiallyZeroAndGetsNoGradient) {
  World world;
  struct Net : nn::Module {
    nn::Embedding rows{*this, "rows", 4, 2, -3};
  } net;
  const HostArray first = world.first_values({net.rows.weight})[0];
  EXPECT_EQ(first.data<float>()[2], 0);
  EXPECT_EQ(first.data<float>()[3], 0);
  EXPECT_NE(first.data<float>()[0], 0);
  auto gradient = compile(world.mesh(), [&](Tensor i) { return grad(sum(net.rows(i)), {net.rows.weight})[0]; });
  const HostArray result = gradient(HostArray::of<std::int64_t>({3}, {0, 1, 1})).value().read();
  EXPECT_THAT(std::vector<float>(result.data<float>().begin(), result.data<float>().end()),
              ElementsAre(1, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(error_of([&] { nn::Embedding(net, "more", 4, 2, 4); }),
              HasSubstr("padding row 4 does not exist; there are 4 rows"));
}

TEST(Optim, OneStepOfSgdHasTheExpectedProgram) {
  struct Net : nn::Module {
    nn::Linear fc{*this, "fc", 3, 1, false};
  } net;
  optim::SGD sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  OpTable ops = all_ops();
  Trace trace(ops, {.name = "step"});
  Trace::Scope scope(trace);
  Tensor x = trace.input("x", {DType::f32, {2, 3}});
  Tensor loss = sum(net.fc(x));
  sgd.step(grad(loss, net.parameters()));
  trace.finish({loss});
  verify(trace.graph);
  std::string text = print(trace.graph);
  EXPECT_THAT(text, HasSubstr("variable \"fc.weight\" : f32[1, 3] read"));
  EXPECT_THAT(text, HasSubstr("variable \"sgd.m.fc.weight\" : f32[1, 3] read"));
  EXPECT_THAT(text, HasSubstr("input() {dtype=\"f32\", name=\"sgd.lr\", shape=[]} : f32[] in \"sgd\""));
  EXPECT_EQ(trace.graph.nodes.back().op->name, "sgd");
  ASSERT_EQ(trace.host_scalars().size(), 1u);
  EXPECT_EQ(trace.host_scalars()[0].value(), 0.1);
  sgd.set_lr(0.05);
  EXPECT_EQ(trace.host_scalars()[0].value(), 0.05);
}

TEST(Optim, AdamHasOneStepCounterForAllParameters) {
  Net net(DType::f64);
  optim::Adam adam(net.parameters(), {.lr = 2e-3});
  OpTable ops = all_ops();
  Trace trace(ops, {});
  Trace::Scope scope(trace);
  std::vector<Tensor> grads;
  for (const auto& p : net.parameters()) grads.push_back(full(p.shape(), 1, DType::f64));
  adam.step(grads);
  trace.finish({});
  verify(trace.graph);
  EXPECT_EQ(trace.graph.variables.size(), 3 * 5u + 1);
  for (const auto& variable : trace.graph.variables) EXPECT_TRUE(variable.updated.valid()) << variable.name;
  ASSERT_EQ(trace.host_scalars().size(), 1u);
  EXPECT_EQ(trace.host_scalars()[0].name, "adam.lr.f64");
}

TEST(Optim, WrongGradientsAreErrorsAtTheUsersLine) {
  Net net;
  optim::Adam adam(net.parameters(), {});
  OpTable ops = all_ops();
  Trace trace(ops, {});
  Trace::Scope scope(trace);
  EXPECT_THAT(error_of([&] { adam.step({}); }),
              ::testing::StartsWith("step got 0 gradients for 5 parameters\n  at nn_test.cc:"));
  std::vector<Tensor> grads(5, full({1}, 0));
  EXPECT_THAT(error_of([&] { adam.step(grads); }),
              HasSubstr("parameter 'conv.weight' is f32[3, 1, 3, 3]; its gradient is f32[1]"));
  EXPECT_THAT(error_of([] { optim::SGD({}, {}); }), HasSubstr("optimiser 'sgd' has no parameters"));
  const Parameter w("w", {DType::f32, {1}}, constant_init(0)), other_w("w", {DType::f32, {1}}, constant_init(0));
  const std::vector<Parameter> twice{w, other_w, w};
  EXPECT_EQ(error_of([&] { optim::Adam(twice, {}); }), "optimiser 'adam': parameter 'w' is listed twice");
  EXPECT_EQ(error_of([&] { optim::Lion(twice, {}); }), "optimiser 'lion': parameter 'w' is listed twice");
  EXPECT_EQ(error_of([&] { optim::EMA(twice, 0.5); }), "average 'ema': parameter 'w' is listed twice");
  optim::SGD({w, other_w}, {});  // two parameters with the same name are allowed
}

TEST(Optim, TwoOptimisersWithTheSameNameHaveSeparateLearningRatesInOneProgram) {
  Parameter a("a", {DType::f32, {}}, constant_init(0)), b("b", {DType::f32, {}}, constant_init(0));
  optim::SGD first({a}, {.lr = 0.5}), second({b}, {.lr = 0.25});
  OpTable ops = all_ops();
  Trace trace(ops, {});
  Trace::Scope scope(trace);
  first.step({full({}, 1)});
  second.step({full({}, 1)});
  first.step({full({}, 1)});
  ASSERT_EQ(trace.host_scalars().size(), 2u);
  EXPECT_EQ(trace.host_scalars()[0].name, "sgd.lr");
  EXPECT_EQ(trace.host_scalars()[1].name, "sgd.lr#1");
  EXPECT_EQ(trace.host_scalars()[0].value(), 0.5);
  EXPECT_EQ(trace.host_scalars()[1].value(), 0.25);
}

// The layer projects 12 features to 4 query heads and 2 key and value heads of width 3.
TEST(Layers, AttentionReshapesKeysAndValuesToTheirOwnNumberOfHeads) {
  struct Net : nn::Module {
    nn::MultiHeadAttention attention{*this, "attention", 12, 4, {.kv_heads = 2}};
  } net;
  OpTable ops = all_ops();
  Trace trace(ops, {});
  Trace::Scope scope(trace);
  EXPECT_EQ(net.attention(trace.input("x", {DType::f32, {2, 5, 12}})).shape(), (Shape{2, 5, 12}));
  std::vector<Shape> heads;
  for (const Node& node : trace.graph.nodes)
    if (heads.size() < 3 && node.op->name == "reshape" && trace.graph.type(node.outputs[0]).rank() == 4)
      heads.push_back(trace.graph.type(node.outputs[0]).shape);
  EXPECT_THAT(heads, ElementsAre(Shape{2, 5, 4, 3}, Shape{2, 5, 2, 3}, Shape{2, 5, 2, 3}));
}

}  // namespace
}  // namespace karez
