// Tests of the identity of variables: several models of the same class, at the same time and one after another,
// ambiguous names, and variables without owners.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <thread>

#include "karez/api/compile.h"
#include "karez/api/namespace.h"
#include "karez/api/nn.h"
#include "karez/api/optim.h"
#include "karez/api/testing/test_texts.h"

namespace karez {
namespace {
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Net : nn::Module {
  nn::Linear fc1{*this, "fc1", 6, 8}, fc2{*this, "fc2", 8, 4};
  Tensor operator()(Tensor x) { return fc2(tanh(fc1(x))); }
};

HostArray images(int step) {
  HostArray out(TensorType{DType::f32, {8, 6}});
  auto data = out.data<float>();
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i) + step));
  return out;
}
HostArray labels(int step) {
  HostArray out(TensorType{DType::i32, {8}});
  for (std::size_t i = 0; i < 8; ++i)
    out.data<std::int32_t>()[i] = static_cast<std::int32_t>((3 * i + static_cast<std::size_t>(step)) % 4);
  return out;
}

// A model with its optimiser and its training step in a world.
struct Trainer {
  explicit Trainer(World& world, const std::string& mesh = "", double lr = 0.05) : adam(net.parameters(), {.lr = lr}) {
    step.emplace(compile(world.mesh(mesh), [this](Tensor x, Tensor y) {
      Tensor loss = cross_entropy(net(x), y);
      adam.step(grad(loss, net.parameters()));
      return loss;
    }));
  }
  std::vector<double> losses(int steps, int first = 0) {
    std::vector<double> out;
    for (int i = 0; i < steps; ++i) out.push_back((*step)(images(first + i), labels(first + i)).item());
    return out;
  }
  Net net;
  optim::Adam adam;
  std::optional<Function> step;
};

TEST(State, TwoModelsOfTheSameClassTrainTogetherAsTheyDoSeparately) {
  for (const char* mesh : {"", "data=2,model=2"}) {
    auto separate_losses = [&](double lr) {
      World world({.devices = 4});
      world.seed(1);
      return Trainer(world, mesh, lr).losses(4);
    };
    World world({.devices = 4});
    world.seed(1);
    Trainer a(world, mesh, 0.05);
    world.seed(1);
    Trainer b(world, mesh, 0.2);
    std::vector<double> losses_a, losses_b;
    for (int i = 0; i < 4; ++i) {  // the two models take turns
      losses_a.push_back(a.losses(1, i)[0]);
      losses_b.push_back(b.losses(1, i)[0]);
    }
    EXPECT_EQ(losses_a, separate_losses(0.05)) << mesh;
    EXPECT_EQ(losses_b, separate_losses(0.2)) << mesh;
    EXPECT_NE(losses_a, losses_b);
    EXPECT_NE(list(world.read(a.net.fc1.weight)), list(world.read(b.net.fc1.weight)));
  }
}

TEST(State, TwoModelsOfTheSameClassCanTrainInOneFunction) {
  World world({.devices = 2});
  world.seed(1);
  Net a;
  world.seed(1);
  Net b;
  optim::Adam adam_a(a.parameters(), {.lr = 0.05}), adam_b(b.parameters(), {.lr = 0.2});
  auto step = compile(world.mesh("data=2"), [&](Tensor x, Tensor y) {
    Tensor loss_a = cross_entropy(a(x), y), loss_b = cross_entropy(b(x), y);
    adam_b.step(grad(loss_b, b.parameters()));
    adam_a.step(grad(loss_a, a.parameters()));
    return std::pair(loss_a, loss_b);
  });
  std::vector<double> losses_a, losses_b;
  for (int i = 0; i < 4; ++i) {
    Future out = step(images(i), labels(i));
    losses_a.push_back(out.item(0));
    losses_b.push_back(out.item(1));
  }
  World other_world({.devices = 2});
  other_world.seed(1);
  std::vector<double> separate_a = Trainer(other_world, "data=2", 0.05).losses(4);
  other_world.seed(1);
  std::vector<double> separate_b = Trainer(other_world, "data=2", 0.2).losses(4);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(losses_a[i], separate_a[i], 1e-5);
    EXPECT_NEAR(losses_b[i], separate_b[i], 1e-5);
  }
}

TEST(State, AModelLeavesNoVariablesBehindForTheNextModelOfItsClass) {
  World world;
  world.seed(1);
  std::vector<double> first = Trainer(world).losses(3);
  EXPECT_THAT(world.variables(), IsEmpty());
  world.seed(1);
  EXPECT_EQ(Trainer(world).losses(3), first) << "the variables of a new model must start with their first values";
  EXPECT_THAT(world.variables(), IsEmpty());
}

TEST(State, ANameThatTwoVariablesHaveIsAmbiguousButAParameterIsNot) {
  World world({.devices = 2});
  Net a, b;
  auto f =
      compile(world.mesh("model=2"), [&](Tensor x) { return a(x); }, {.rules = {{"fc1.weight", P("model", nullptr)}}});
  auto g =
      compile(world.mesh("model=2"), [&](Tensor x) { return b(x); }, {.rules = {{"fc1.weight", P(nullptr, "model")}}});
  EXPECT_EQ(error_of([&] { world.read(a.fc1.weight); }),
            "parameter 'fc1.weight' has no variable yet: the first call of a function that uses the parameter creates "
            "it");
  f(images(0)).wait();
  EXPECT_EQ(list(world.read("fc1.weight")), list(world.read(a.fc1.weight)));
  EXPECT_THAT(error_of([&] { world.read(b.fc1.weight); }), HasSubstr("parameter 'fc1.weight' has no variable yet"));
  g(images(0)).wait();
  for (auto use : {+[](World& w) { w.read("fc1.weight"); }, +[](World& w) { w.layout("fc1.weight"); },
                   +[](World& w) { w.write("fc1.weight", HostArray::of<float>({1}, {0})); }})
    EXPECT_THAT(error_of([&] { use(world); }),
                AllOf(HasSubstr("'fc1.weight' is the name of 2 variables: f32[8@model, 6] (ordinal "),
                      HasSubstr(" and f32[8, 6@model] (ordinal "), HasSubstr("select one of them by its Parameter")));
  EXPECT_EQ(world.layout(a.fc1.weight), (Layout{S(0)}));
  EXPECT_EQ(world.layout(b.fc1.weight), (Layout{S(1)}));
  HostArray ones(TensorType{DType::f32, {8, 6}});
  for (float& v : ones.data<float>()) v = 1;
  auto old_weight = list(world.read(a.fc1.weight));
  world.write(b.fc1.weight, ones);
  EXPECT_EQ(list(world.read(a.fc1.weight)), old_weight);
  EXPECT_THAT(list(world.read(b.fc1.weight)), Each(1.0f));
  EXPECT_EQ(world.variables().size(), 8u);
}

TEST(State, UnreachableVariablesAreFreedAndVariablesOfFunctionsAreKept) {
  World world;
  std::optional<Function> f;
  {
    Parameter w("w", {DType::f32, {2}}, constant_init(3));
    f.emplace(compile(world.mesh(), [w](Tensor x) { return x * w; }));
    (*f)(HostArray::of<float>({2}, {1, 2})).wait();
    EXPECT_THAT(world.variables(), ElementsAre("w"));
  }
  EXPECT_THAT(list((*f)(HostArray::of<float>({2}, {1, 2})).value().read()), ElementsAre(3, 6))
      << "the function must keep the parameter alive";
  EXPECT_THAT(world.variables(), ElementsAre("w"));
  f.reset();
  EXPECT_THAT(world.variables(), IsEmpty());
  EXPECT_THAT(error_of([&] { world.read("w"); }), HasSubstr("no variable 'w' exists yet"));
}

TEST(State, AParameterMayBeDestroyedOnAnyThreadAndAfterItsWorld) {
  auto a = std::make_unique<World>(), b = std::make_unique<World>();
  auto w = std::make_unique<Parameter>("w", TensorType{DType::f32, {2}}, constant_init(3));
  for (World* world : {a.get(), b.get()})
    compile(world->mesh(), [&](Tensor x) { return x * *w; })(HostArray::of<float>({2}, {1, 2})).wait();
  EXPECT_THAT(a->variables(), ElementsAre("w"));
  a.reset();
  std::thread([&] { w.reset(); }).join();
  EXPECT_THAT(b->variables(), IsEmpty());
}

TEST(State, ModelsOfTheSameClassOnSeveralThreadsHaveSeparateVariables) {
  World world;
  std::vector<std::vector<double>> losses_by_thread(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {  // each thread makes parameters with ordinals from 0
      Trainer model(world);
      losses_by_thread[i] = model.losses(3);
    });
  for (auto& thread : threads) thread.join();
  World other_world;
  auto expected = Trainer(other_world).losses(3);
  for (const auto& losses : losses_by_thread) EXPECT_EQ(losses, expected);
  EXPECT_THAT(world.variables(), IsEmpty());
}

TEST(State, AProgramDoesNotDependOnOtherVariablesOfItsWorld) {
  auto text = [](World& world, Net& net) {
    auto f = compile(world.mesh(), [&](Tensor x) { return net(x); });
    f(images(0)).wait();
    return std::pair(f.graph_text(), f.plan().program_hash);
  };
  World world, other_world;
  Net a, b;
  auto first = text(world, a), second = text(world, b), third = text(other_world, b);
  EXPECT_EQ(first, second);
  EXPECT_EQ(first, third);
}

}  // namespace
}  // namespace karez
