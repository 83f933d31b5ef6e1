// Tests of optimisers: runs compiled steps of SGD and Adam with each option, and compares the weights with PyTorch's
// formulas, evaluated by hand.
#include "karez/api/optim.h"

#include <gtest/gtest.h>

#include <cmath>

#include "karez/api/compile.h"
#include "karez/api/functions.h"

namespace karez {
namespace {

// Returns the weight after each of three steps in f64. It starts at w = 1; the gradients are 2, -1 and 0.5, because the
// loss is w times these numbers.
constexpr double gradients[] = {2, -1, 0.5};
template <class Optimiser, class Options> std::vector<double> weights(Options options) {
  World world;
  Parameter w("w", {DType::f64, {1}}, constant_init(1));
  Optimiser optimiser({w}, options);
  auto step = compile(world.mesh(), [&](Tensor g) {
    Tensor loss = sum(w * g);
    optimiser.step(grad(loss, {w}));
    return loss;
  });
  std::vector<double> out;
  for (double g : gradients) {
    step(HostArray::of<double>({1}, {g})).wait();
    out.push_back(world.read(w).data<double>()[0]);
  }
  return out;
}

void expect_near(const std::vector<double>& result, const std::vector<double>& expected) {
  ASSERT_EQ(result.size(), expected.size());
  for (std::size_t i = 0; i < result.size(); ++i) EXPECT_NEAR(result[i], expected[i], 1e-12) << "step " << i + 1;
}

using optim::Adam;
using optim::SGD;

TEST(SgdSteps, PlainStepsFollowTheFormula) {  // w - lr * g
  expect_near(weights<SGD>(optim::SGDOptions{.lr = 0.1}), {0.8, 0.9, 0.85});
}

TEST(SgdSteps, MomentumFollowsTheFormula) {  // m: 2, 0, 0.5
  expect_near(weights<SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.5}), {0.8, 0.8, 0.75});
}

TEST(SgdSteps, WeightDecayFollowsTheFormula) {  // g + w / 2: 2.5, -0.625, 0.90625
  expect_near(weights<SGD>(optim::SGDOptions{.lr = 0.1, .weight_decay = 0.5}), {0.75, 0.8125, 0.721875});
}

TEST(SgdSteps, NesterovMomentumFollowsTheFormula) {  // m as with momentum; steps by g + m / 2: 3, -1, 0.75
  expect_near(weights<SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.5, .nesterov = true}), {0.7, 0.8, 0.725});
}

TEST(SgdSteps, NesterovMomentumWithWeightDecayFollowsTheFormula) {
  // g: 2 + 0.5 = 2.5; m = 2.5; w = 1 - 0.1 * (2.5 + 1.25) = 0.625
  // g: -1 + 0.3125 = -0.6875; m = 1.25 - 0.6875 = 0.5625; w = 0.625 - 0.1 * (-0.6875 + 0.28125) = 0.665625
  // g: 0.5 + 0.3328125 = 0.8328125; m = 0.28125 + 0.8328125 = 1.1140625; w = 0.665625 - 0.1 * (0.8328125 + 0.55703125)
  // = 0.526640625
  expect_near(weights<SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.5, .weight_decay = 0.5, .nesterov = true}),
              {0.625, 0.665625, 0.526640625});
}

TEST(SgdSteps, ANewLearningRateAppliesFromTheNextStep) {
  World world;
  Parameter w("w", {DType::f64, {1}}, constant_init(1));
  SGD sgd({w}, {.lr = 0.1});
  auto step = compile(world.mesh(), [&](Tensor g) { return sgd.step(grad(sum(w * g), {w})), sum(g); });
  step(HostArray::of<double>({1}, {2})).wait();
  sgd.set_lr(0.5);
  EXPECT_EQ(sgd.lr(), 0.5);
  step(HostArray::of<double>({1}, {1})).wait();
  EXPECT_NEAR(world.read(w).data<double>()[0], 0.8 - 0.5, 1e-12);
  EXPECT_EQ(step.signatures(), 1) << "a new learning rate must not cause a compilation";
}

TEST(SgdSteps, WithoutMomentumThereIsNoState) {
  World world({.devices = 2});
  Parameter w("w", {DType::f32, {2}}, constant_init(1));
  SGD sgd({w}, {.lr = 0.5, .weight_decay = 0.5});
  auto step = compile(world.mesh("data=2"), [&](Tensor x) { return sgd.step(grad(sum(w * x), {w})), sum(x); },
                      {.rules = {{"*", P(nullptr)}}});
  step(HostArray::of<float>({2}, {1, 1})).wait();
  EXPECT_EQ(world.variables(), std::vector<std::string>{"w"});
  EXPECT_EQ(world.read(w).data<float>()[1], 0.25f);
}

// The loss reads only one parameter. The optimiser must not update the other parameter, whether its gradient is zero or
// an empty tensor.
template <class Optimiser, class Options> void expect_no_update(Options options) {
  for (const bool has_empty_gradient : {false, true}) {
    World world;
    Parameter loss_parameter("used", {DType::f32, {2}}, constant_init(1)),
        unread("other", {DType::f32, {2}}, constant_init(3));
    options.lr = 0.5;
    options.weight_decay = 0.5;
    Optimiser optimiser({unread, loss_parameter}, options);
    auto step = compile(world.mesh(), [&](Tensor x) {
      Tensor loss = sum(loss_parameter * x);
      optimiser.step(has_empty_gradient ? std::vector<Tensor>{Tensor(), grad(loss, {loss_parameter})[0]}
                                        : grad(loss, {unread, loss_parameter}));
      return std::pair(loss, Tensor(unread * 1.0));
    });
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(step(HostArray::of<float>({2}, {1, 1})).value(1).read().template data<float>()[1], 3);
    EXPECT_EQ(world.read(unread).template data<float>()[0], 3);
    EXPECT_LT(world.read(loss_parameter).template data<float>()[0], 1);
    for (const std::string& name : world.variables())
      EXPECT_TRUE(name == "other" || name.find("other") == name.npos) << name;
  }
}
TEST(Steps, AParameterWithoutGradientIsNotUpdated) {
  expect_no_update<SGD>(optim::SGDOptions());
  expect_no_update<SGD>(optim::SGDOptions{.momentum = 0.5});
  expect_no_update<Adam>(optim::AdamOptions());
  expect_no_update<Adam>(optim::AdamOptions{.decoupled = true});
  expect_no_update<optim::RMSprop>(optim::RMSpropOptions{.momentum = 0.5, .centered = true});
  expect_no_update<optim::Adagrad>(optim::AdagradOptions());
  expect_no_update<optim::Lion>(optim::LionOptions());
}

// Kingma and Ba's algorithm as in the paper, with PyTorch's two kinds of weight decay.
std::vector<double> reference_adam(const optim::AdamOptions& o) {
  double w = 1, m = 0, v = 0;
  std::vector<double> out;
  int t = 0;
  for (double g : gradients) {
    ++t;
    if (o.decoupled) w -= o.lr * o.weight_decay * w;
    else g += o.weight_decay * w;
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    const double mean = m / (1 - std::pow(o.beta1, t)), square = v / (1 - std::pow(o.beta2, t));
    w -= o.lr * mean / (std::sqrt(square) + o.eps);
    out.push_back(w);
  }
  return out;
}

TEST(AdamSteps, EachOptionHasAnEffect) {
  const optim::AdamOptions defaults{.lr = 0.1};
  std::vector<std::vector<double>> results;
  for (const optim::AdamOptions& options :
       {defaults,
        optim::AdamOptions{.lr = 0.2},
        {.lr = 0.1, .beta1 = 0.5},
        {.lr = 0.1, .beta2 = 0.25},
        {.lr = 0.1, .eps = 1},
        {.lr = 0.1, .weight_decay = 0.5},
        {.lr = 0.1, .weight_decay = 0.5, .decoupled = true},
        {.lr = 0.05, .beta1 = 0.5, .beta2 = 0.25, .eps = 0.5, .weight_decay = 0.25}}) {
    results.push_back(weights<Adam>(options));
    expect_near(results.back(), reference_adam(options));
  }
  for (std::size_t i = 0; i < results.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_NE(results[i], results[j]) << "options " << i << " and " << j << " give equal steps";
}

TEST(AdamSteps, TheFirstStepEqualsACalculationByHand) {
  // g = 2 + 0.5 = 2.5; m = 1.25, v = 0.75 * 6.25; with bias correction m = 2.5, v = 6.25; w = 1 - 0.1 * 2.5 / (2.5 + 1)
  EXPECT_NEAR(
      weights<Adam>(optim::AdamOptions{.lr = 0.1, .beta1 = 0.5, .beta2 = 0.25, .eps = 1, .weight_decay = 0.5})[0],
      1 - 0.25 / 3.5, 1e-12);
  // decoupled: w = 0.95 first; g = 2; with bias correction m = 2, v = 4; w = 0.95 - 0.1 * 2 / (2 + 1)
  EXPECT_NEAR(weights<Adam>(optim::AdamOptions{
                  .lr = 0.1, .beta1 = 0.5, .beta2 = 0.25, .eps = 1, .weight_decay = 0.5, .decoupled = true})[0],
              0.95 - 0.2 / 3, 1e-12);
}

}  // namespace
}  // namespace karez
