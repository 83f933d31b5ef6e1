// Tests of parameters outside of compiled functions: when and on which mesh they are read, and training.
#include "karez/api/parameter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "karez/api/functions.h"
#include "karez/api/interactive.h"
#include "karez/api/namespace.h"
#include "karez/api/nn.h"
#include "karez/api/optim.h"
#include "karez/api/state/world_state.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"
#include "karez/base/text.h"

namespace karez {
namespace {
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::int64_t count_programs(const DeviceMesh& mesh) { return mesh.world->expression_plans.compiled; }

TEST(InteractiveParameters, ParametersAreReadAtTheTimeOfTheCall) {
  World world;
  const DeviceMesh mesh = world.mesh();
  struct Net : nn::Module {
    nn::Linear fc{*this, "fc", 3, 2};
  } net;
  auto step = compile(mesh, [&](Tensor x) {
    Tensor loss = sum(net.fc(x));
    optim::SGD(net.parameters(), {.lr = 0.5}).step(grad(loss, net.parameters()));
    return loss;
  });
  const Array x = array_on(mesh, HostArray::of<float>({1, 3}, {1, 2, 3}));
  const Tensor old_output = net.fc(x);
  const auto traced = compile(mesh, [&](Tensor v) { return net.fc(v); })(x).value().read();
  step(x).wait();
  const Tensor new_output = net.fc(x);
  EXPECT_TRUE(equal_bits(old_output.read(), traced))
      << "the call before the update must use the old weights, although the result is read after the update";
  // The gradient of the sum is x for each row of the weight, and 1 for the bias. The result therefore decreases by 0.5
  // * (1 + 4 + 9 + 1) = 7.5.
  for (int i = 0; i < 2; ++i)
    EXPECT_NEAR(new_output.read().data<float>()[i], old_output.read().data<float>()[i] - 7.5, 1e-5);
}

TEST(InteractiveParameters, ComputationsWithParametersRunOnTheMeshThatStoresThem) {
  World world({.devices = 4});
  const DeviceMesh single = world.mesh(), pair = world.mesh("data=2"), second_pair = world.mesh("data=2", {.first = 2});
  struct Net : nn::Module {
    nn::Linear first{*this, "first", 3, 4}, second{*this, "second", 4, 2}, fresh{*this, "fresh", 3, 2};
  } net;
  nn::Linear &first = net.first, &second = net.second;
  const auto train = [](const DeviceMesh& mesh, nn::Linear& layer, const HostArray& x) {
    compile(mesh,
            [&](Tensor v) {
              Tensor loss = sum(layer(v));
              optim::SGD(layer.parameters(), {.lr = 0.1}).step(grad(loss, layer.parameters()));
              return loss;
            })(x)
        .wait();
  };
  const HostArray x = random_floats({6, 3}, 1), hidden = random_floats({6, 4}, 2);
  train(pair, first, x), train(second_pair, second, hidden);
  const HostArray expected = compile(second_pair, [&](Tensor v) { return second(v); })(
                                 compile(pair, [&](Tensor v) { return relu(first(v)); })(x).value())
                                 .value()
                                 .read();

  Interactive scope(single);
  const Tensor inner = relu(first(x)), y = second(inner);
  EXPECT_EQ(inner.array().mesh(), pair.mesh);
  EXPECT_EQ(y.array().mesh(), second_pair.mesh);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_NEAR(list(y)[i], list(expected)[i], 1e-6);
  EXPECT_EQ(first(array_on(single, x)).array().mesh(), pair.mesh) << "an operand on another mesh must be transferred";
  EXPECT_EQ(net.fresh(x).array().mesh(), single.mesh)
      << "a parameter that is not stored yet must be created on the mesh of the computation";

  optim::Adam adam(first.parameters(), {.lr = 0.1});  // its state does not exist yet
  const auto weight_before = list(world.read(first.weight));
  adam.step(
      value_and_grad([&](Tensor v) { return sum(first(v)); }, {.parameters = first.parameters()})(Tensor(x)).gradients);
  for (std::size_t i = 0; i < weight_before.size(); ++i)
    EXPECT_NEAR(std::abs(list(world.read(first.weight))[i] - weight_before[i]), 0.1, 1e-3);
  const SourceLine line_before = SourceLine::current();
  const auto loss_and_gradients =
      value_and_grad([&](Tensor v) { return sum(second(first(v))); }, {.parameters = first.parameters()});
  EXPECT_THAT(error_of([&] { loss_and_gradients(Tensor(x)).value.read(); }),
              AllOf(HasSubstr("variable 'second.weight' is on mesh(data=2) at 0:2, 0:3; this function is compiled for "
                              "mesh(data=2) at 0:0, 0:1"),
                    HasSubstr("save the variables, reset the world and load them"),
                    HasSubstr(cat("at parameter_test.cc:", line_before.line() + 2))));
}

TEST(InteractiveParameters, ProvisionalVariablesAreRelocatedByTheFirstFunction) {
  struct Net : nn::Module {
    nn::Linear fc{*this, "fc", 3, 4}, out{*this, "out", 4, 2};
    Tensor operator()(Tensor x) { return out(dropout(relu(fc(x)), 0.5)); }
  };
  const HostArray x = random_floats({4, 3}, 1), bias = random_floats({4}, 2);
  std::vector<std::vector<double>> losses;
  HostArray first_output;
  for (const bool evaluates_first : {false, true}) {
    World world({.devices = 4});
    Net net;
    Interactive scope(world.mesh(), false);
    if (evaluates_first) {
      const Tensor y = net(x);  // an evaluation before training
      EXPECT_EQ(y.array().mesh(), world.mesh().mesh);
      first_output = y.read();
    }
    optim::Adam adam(net.parameters(), {.lr = 0.1});
    if (evaluates_first) net(x).read();
    world.write(net.fc.bias, bias);
    if (evaluates_first)
      adam.step(value_and_grad([&](Tensor v) { return sum(net(v)) * 0.0; }, {.parameters = net.parameters()})(Tensor(x))
                    .gradients);
    else
      compile(world.mesh("data=2,model=2"),
              [&](Tensor v) {
                adam.step(grad(sum(net(v)) * 0.0, net.parameters()));
                return sum(v);
              },
              {.train = false})(x)
          .wait();
    auto step = compile(world.mesh("data=2,model=2"),
                        [&](Tensor v) {
                          Tensor loss = sum(net(v) * net(v));
                          adam.step(grad(loss, net.parameters()));
                          return loss;
                        },
                        {.train = false});
    losses.emplace_back();
    for (int i = 0; i < 4; ++i) losses.back().push_back(step(x).item());
    EXPECT_NEAR(
        sum(net(x) * net(x)).item(),
        compile(world.mesh("data=2,model=2"), [&](Tensor v) { return sum(net(v) * net(v)); }, {.train = false})(x)
            .item(),
        1e-5);
    EXPECT_EQ(net(x).array().mesh(), world.mesh("data=2,model=2").mesh);
    if (!evaluates_first) continue;
    auto late_function = compile(world.mesh("data=4"), [&](Tensor v) { return net(v); });
    EXPECT_THAT(error_of([&] { late_function(x); }), HasSubstr("is on mesh(data=2, model=2)"))
        << "the variable must stay on the mesh of the function that used it";
    world.reset();
    EXPECT_TRUE(equal_bits(net(x).read(), first_output)) << "after a reset, the model must have its initial values";
  }
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(losses[0][i], losses[1][i], 1e-5 * std::abs(losses[0][i]));
}

TEST(InteractiveParameters, AModelTrainsWithoutACompiledFunction) {
  World world;
  Interactive scope(world.mesh());
  const Parameter w("w", {DType::f32, {3}}, constant_init(1));
  optim::SGD sgd({w}, {.lr = 0.25});
  auto loss = [&](Tensor x) { return sum(w * w * x); };
  const Tensor x = vector_of(1, 2, 0);
  for (int i = 0; i < 2; ++i) {
    const auto [value, gradients] = value_and_grad(loss, {.parameters = {w}})(x);
    EXPECT_FLOAT_EQ(value.item<float>(), i == 0 ? 3 : 0.25f);
    sgd.step(gradients);
  }
  // Each step, w = w - 0.25 * 2 * w * x, multiplies the elements by 1/2, 0 and 1.
  EXPECT_THAT(list(world.read(w)), ElementsAre(0.25, 0, 1));
  const auto programs = count_programs(world.mesh());
  sgd.set_lr(0);
  sgd.step(value_and_grad(loss, {.parameters = {w}})(x).gradients);
  EXPECT_THAT(list(world.read(w)), ElementsAre(0.25, 0, 1)) << "a step with lr 0 must change nothing";
  EXPECT_EQ(count_programs(world.mesh()), programs) << "a new learning rate must not cause a compilation";
  const Parameter u("u", {DType::f32, {2}}, constant_init(1)), v("v", {DType::f32, {2}}, constant_init(1));
  optim::SGD sgd_of_both({u, v}, {.lr = 0.25});
  const auto product = [&](Tensor y) { return sum(u * v * 2 * y); };
  for (int i = 0; i < 2; ++i) sgd_of_both.step(value_and_grad(product, {.parameters = {u, v}})(Tensor(1)).gradients);
  EXPECT_THAT(list(world.read(u)), ElementsAre(0.25, 0.25)) << "two steps must halve the elements twice";
  EXPECT_THAT(list(world.read(v)), ElementsAre(0.25, 0.25));
}

TEST(Parameter, AnInitialValueOfAnotherTypeIsAnError) {
  const Parameter w("w", {DType::f32, {2}}, constant_init(0));
  EXPECT_EQ(error_of([&] {
              w.set_initial_value(HostArray::of<float>({3}, {1, 2, 3}));
            }),
            "parameter 'w' is f32[2], not f32[3]");
  EXPECT_EQ(error_of([&] { w.set_initial_value({}); }), "parameter 'w' is f32[2], not an uninitialised array");
}

}  // namespace
}  // namespace karez
