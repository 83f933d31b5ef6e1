// Tests of functions that bindings for other languages use: first values of variables, seeds, interruptible waits,
// module paths, and updates of variables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <limits>
#include <stdexcept>
#include <thread>

#include "karez/api/compile.h"
#include "karez/api/namespace.h"
#include "karez/api/nn.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"

namespace karez {
namespace {
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Net : nn::Module {
  nn::Linear fc{*this, "fc", 6, 8};
  nn::Embedding rows{*this, "rows", 5, 3};
  Tensor operator()(Tensor x) { return concat({reshape(fc(x), {-1}), reshape(Tensor(rows.weight * 1.0), {-1})}); }
};
HostArray ones(const Shape& shape) {
  HostArray out(TensorType{DType::f32, shape});
  for (float& v : out.data<float>()) v = 1;
  return out;
}

TEST(FirstValues, FirstValuesEqualTheInitialValuesOfCreatedVariables) {
  World world({.devices = 2, .seed = 9});
  Net net;
  EXPECT_FALSE(world.has(net.fc.weight));
  const auto values = world.first_values(net.parameters());
  EXPECT_FALSE(world.has(net.fc.weight)) << "first_values must not create a variable";
  compile(world.mesh("model=2"), [&](Tensor x) { return net(x); },
          {.rules = {{"fc.weight", P("model", nullptr)}}})(ones({2, 6}))
      .wait();
  ASSERT_TRUE(world.has(net.fc.weight));
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(list(world.read(net.parameters()[i])), list(values[i])) << net.parameters()[i].name();
}

TEST(FirstValues, FirstValuesCanBeWritten) {
  World world;
  Net net;
  world.write(net.fc.bias, ones({8}));
  EXPECT_THAT(list(world.first_values({net.fc.bias})[0]), Each(1.0f));
  auto bias = compile(world.mesh(), [&] { return Tensor(net.fc.bias * 2.0); });
  EXPECT_THAT(list(bias().value().read()), Each(2.0f));
  world.write(net.fc.bias, HostArray::of<float>({8}, {3, 3, 3, 3, 3, 3, 3, 3}));
  EXPECT_THAT(list(bias().value().read()), Each(6.0f));
  EXPECT_EQ(error_of([&] {
              world.write(net.fc.weight, ones({6, 8}));
            }),
            "parameter 'fc.weight' is f32[8, 6], not f32[6, 8]");
  EXPECT_EQ(error_of([&] { value_init(HostArray()); }), "value_init: the array is uninitialised");
}

TEST(FirstValues, ANewSeedChangesFirstValuesAndRestartsDropout) {
  auto draw = [](const Function& f) { return list(f(ones({64})).value().read()); };
  World world({.seed = 1}), other_world({.seed = 2});
  Net net;
  auto drop = [](World& w) { return compile(w.mesh(), [](Tensor x) { return dropout(x, 0.5); }); };
  const Function first_function = drop(world), second_function = drop(other_world);
  const auto expected = draw(second_function);
  EXPECT_NE(draw(first_function), expected);
  world.seed(2);
  EXPECT_EQ(draw(first_function), expected) << "dropout must start again at its first step";
  EXPECT_EQ(list(world.first_values({net.fc.weight})[0]), list(other_world.first_values({net.fc.weight})[0]));
}

TEST(WhileWaiting, AWaitCanBeInterruptedAndTheLaunchStillEnds) {
  std::atomic<bool> interrupt{false};
  World world({.in_flight = 1, .while_waiting = [&] {
                 if (interrupt) throw std::runtime_error("interrupted");
               }});
  auto twice = compile(world.mesh(), [](Tensor x) { return x * 2.0; });
  EXPECT_EQ(twice(1.0f).item(), 2);
  std::promise<void> open, interrupted;
  Future pending = twice(Feed{std::make_shared<LateSource>(open.get_future().share()), 0});
  auto interruption = interrupted.get_future();
  bool was_interrupted = false;
  std::thread opener([&] {
    was_interrupted = interruption.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
    open.set_value();
  });
  interrupt = true;
  EXPECT_THROW(pending.wait(), std::runtime_error);
  EXPECT_THROW(pending.value().read(), std::runtime_error);
  EXPECT_THROW(twice(1.0f), std::runtime_error)
      << "the call must wait, because the maximum number of launches is in flight";
  interrupted.set_value();
  opener.join();
  EXPECT_TRUE(was_interrupted);
  interrupt = false;
  EXPECT_EQ(pending.item(), 10);
  EXPECT_EQ(twice(3.0f).item(), 6);
}

TEST(CheckNan, TheCheckIsAnOptionOfASingleFunction) {
  World world;
  auto body = [](Tensor x) { return log(x); };
  auto checked = compile(world.mesh(), body, {.check_nan = true}), unchecked = compile(world.mesh(), body);
  EXPECT_EQ(unchecked(0.0f).item(), -std::numeric_limits<double>::infinity());
  EXPECT_THAT(error_of([&] { checked(0.0f).wait(); }), HasSubstr("produces -inf"));
}

TEST(Within, WithinSetsThePathOfNewNodes) {
  World world;
  auto f = compile(world.mesh(), [](Tensor x) {
    {
      Within outer("block0");
      Within inner("block0.fc");
      x = tanh(x);
    }
    return exp(x);
  });
  f.compile({{DType::f32, {4}}});
  EXPECT_THAT(f.graph_text(), HasSubstr("tanh(%0) : f32[4] in \"block0.fc\" at"));
  EXPECT_THAT(f.graph_text(), HasSubstr("exp(%1) : f32[4] at"));
}

TEST(Update, AnUpdateStoresAValueForTheNextCall) {
  World world;
  Parameter count("count", {DType::f32, {}}, constant_init(1));
  auto next = compile(world.mesh(), [&] {
    update(count, count * 2.0);
    return Tensor(count + 0.0);
  });
  EXPECT_EQ(next().item(), 2);
  EXPECT_EQ(next().item(), 4);
  EXPECT_EQ(world.read(count).data<float>()[0], 4);
}

TEST(ParametersOf, OnlyParametersThatTheGradientsOfTheValueReachAreReturned) {
  World world;
  Parameter a("a", {DType::f32, {2}}, constant_init(1)), b("b", {DType::f32, {2}}, constant_init(1)),
      c("c", {DType::f32, {2}}, constant_init(1)), d("d", {DType::f32, {2}}, constant_init(1));
  std::vector<Parameter> found;
  EXPECT_FALSE(tracing());
  compile(world.mesh(), [&](Tensor x) {
    EXPECT_TRUE(tracing());
    Tensor loss = sum(x * b + stop_gradient(c) + a);
    Tensor unrelated = sum(d * 1.0);
    found = parameters_of(loss);
    return loss + unrelated;
  }).compile({{DType::f32, {2}}});
  EXPECT_EQ(found, (std::vector{b, a}));
}

TEST(Constant, AConstantIsPartOfTheProgram) {
  World world;
  auto f = compile(world.mesh(), [](Tensor x) { return x + constant(HostArray::of<float>({2}, {3, 5})); });
  EXPECT_THAT(list(f(HostArray::of<float>({2}, {1, 1})).value().read()), ElementsAre(4, 6));
}

TEST(SourceLine, ASourceLineMayBelongToAnotherLanguage) {
  World world;
  EXPECT_THAT(error_of([&] {
                compile(world.mesh(),
                        [](Tensor x) { return sum(Term(x, SourceLine("dir/train.py", 7)), {3}); })(ones({2}));
              }),
              HasSubstr("\n  at train.py:7"));
}

}  // namespace
}  // namespace karez
