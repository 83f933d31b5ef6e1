// Tests of RMSprop, Adagrad, Lion, AdamW, averages of weights and gradient clipping: each option is compared with its
// formula, evaluated in a loop, and invalid options are errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "karez/api/compile.h"
#include "karez/api/functions.h"
#include "karez/api/namespace.h"
#include "karez/api/optim.h"
#include "karez/api/testing/test_texts.h"
#include "karez/api/testing/test_values.h"

namespace karez {
namespace {
using ::testing::UnorderedElementsAre;
using ::testing::UnorderedElementsAreArray;

constexpr double gradients[] = {2, -1, 0.5, -3};

// The weights after each step, which begin at 1.5, and the names of the variables.
struct Trained {
  std::vector<double> weights;
  std::vector<std::string> variables;
};

template <class Optimiser, class Options> Trained run(const Options& options) {
  World world;
  const Parameter w("w", {DType::f64, {1}}, constant_init(1.5));
  Optimiser optimiser({w}, options);
  EXPECT_EQ(optimiser.lr(), options.lr);
  auto step = compile(world.mesh(), [&](Tensor g) { optimiser.step({g}); });
  Trained out;
  for (double g : gradients) {
    step(HostArray::of<double>({1}, {g})).wait();
    out.weights.push_back(world.read(w).data<double>()[0]);
  }
  optimiser.set_lr(0);
  step(HostArray::of<double>({1}, {1})).wait();
  EXPECT_EQ(world.read(w).data<double>()[0], out.weights.back()) << "a learning rate of 0 must change no weight";
  EXPECT_EQ(optimiser.lr(), 0);
  EXPECT_EQ(step.signatures(), 1);
  out.variables = world.variables();
  return out;
}

// Runs `rule` with each gradient, the number of the step and a reference to the weight.
std::vector<double> expected_weights(const std::function<void(double g, int t, double& w)>& rule) {
  std::vector<double> out;
  double w = 1.5;
  for (int t = 0; t < 4; ++t) {
    rule(gradients[t], t, w);
    out.push_back(w);
  }
  return out;
}

TEST(OptimiserOptions, RmspropFollowsItsFormula) {
  for (const optim::RMSpropOptions& o :
       {optim::RMSpropOptions{},
        optim::RMSpropOptions{.lr = 0.1, .alpha = 0.5},
        {.lr = 0.1, .eps = 0.5},
        {.lr = 0.1, .weight_decay = 0.25},
        {.lr = 0.1, .momentum = 0.5},
        {.lr = 0.1, .alpha = 0.75, .centered = true},
        {.lr = 0.1, .alpha = 0.25, .eps = 0.1, .weight_decay = 0.5, .momentum = 0.75, .centered = true, .name = "r"}}) {
    double v = 0, mean = 0, m = 0;
    const std::string label = cat("alpha ", o.alpha, " eps ", o.eps, " momentum ", o.momentum);
    const Trained result = run<optim::RMSprop>(o);
    expect_numbers(label, result.weights, expected_weights([&](double g, int, double& w) {
                     g += o.weight_decay * w;
                     v = o.alpha * v + (1 - o.alpha) * g * g;
                     mean = o.alpha * mean + (1 - o.alpha) * g;
                     m = o.momentum * m + g / (std::sqrt(o.centered ? v - mean * mean : v) + o.eps);
                     w -= o.lr * m;
                   }),
                   1e-12);
    std::vector<std::string> names = {"w", o.name + ".v.w"};
    if (o.centered) names.push_back(o.name + ".mean.w");
    if (o.momentum > 0) names.push_back(o.name + ".m.w");
    EXPECT_THAT(result.variables, UnorderedElementsAreArray(names));
  }
}

TEST(OptimiserOptions, AdagradFollowsItsFormula) {
  for (const optim::AdagradOptions& o : {optim::AdagradOptions{},
                                         optim::AdagradOptions{.lr = 0.5},
                                         {.lr = 0.5, .lr_decay = 0.25},
                                         {.lr = 0.5, .weight_decay = 0.5},
                                         {.lr = 0.5, .initial = 2},
                                         {.lr = 0.5, .eps = 0.5, .name = "a"}}) {
    double s = o.initial;
    const Trained result = run<optim::Adagrad>(o);
    expect_numbers(cat("lr_decay ", o.lr_decay, " initial ", o.initial), result.weights,
                   expected_weights([&](double g, int t, double& w) {
                     g += o.weight_decay * w;
                     s += g * g;
                     w -= o.lr / (1 + t * o.lr_decay) * g / (std::sqrt(s) + o.eps);
                   }),
                   1e-12);
    EXPECT_THAT(result.variables, UnorderedElementsAre("w", o.name + ".sum.w", o.name + ".step"));
  }
}

TEST(OptimiserOptions, LionFollowsItsFormula) {
  for (const optim::LionOptions& o : {optim::LionOptions{},
                                      optim::LionOptions{.lr = 0.1, .beta1 = 0.25},
                                      {.lr = 0.1, .beta1 = 0.75, .beta2 = 0.5},
                                      {.lr = 0.1, .weight_decay = 0.5, .name = "l"}}) {
    double m = 0;
    const Trained result = run<optim::Lion>(o);
    expect_numbers(cat("beta1 ", o.beta1, " beta2 ", o.beta2), result.weights,
                   expected_weights([&](double g, int, double& w) {
                     const double direction = o.beta1 * m + (1 - o.beta1) * g;
                     w -= o.lr * ((direction > 0) - (direction < 0) + o.weight_decay * w);
                     m = o.beta2 * m + (1 - o.beta2) * g;
                   }),
                   1e-12);
    EXPECT_THAT(result.variables, UnorderedElementsAre("w", o.name + ".m.w"));
  }
}

TEST(OptimiserOptions, AdamWDecaysTheWeightApartFromTheGradient) {
  for (const optim::AdamWOptions& o : {optim::AdamWOptions{},
                                       optim::AdamWOptions{.lr = 0.1},
                                       {.lr = 0.1, .beta1 = 0.5, .beta2 = 0.75},
                                       {.lr = 0.1, .eps = 0.5},
                                       {.lr = 0.1, .weight_decay = 0.5, .name = "decay"}}) {
    double m = 0, v = 0;
    const Trained result = run<optim::AdamW>(o);
    expect_numbers(cat("beta1 ", o.beta1, " weight_decay ", o.weight_decay), result.weights,
                   expected_weights([&](double g, int t, double& w) {
                     w -= o.lr * o.weight_decay * w;
                     m = o.beta1 * m + (1 - o.beta1) * g;
                     v = o.beta2 * v + (1 - o.beta2) * g * g;
                     w -= o.lr * m / (1 - std::pow(o.beta1, t + 1)) /
                          (std::sqrt(v / (1 - std::pow(o.beta2, t + 1))) + o.eps);
                   }),
                   1e-12);
    EXPECT_THAT(result.variables, UnorderedElementsAre("w", o.name + ".m.w", o.name + ".v.w", o.name + ".step"));
  }
}

TEST(Averages, TheFirstUpdateCopiesTheWeightAndLaterOnesBlend) {
  World world;
  const Parameter w("w", {DType::f64, {2}}, constant_init(8)), v("v", {DType::f32, {}}, constant_init(4));
  optim::EMA ema({w, v}, 0.75, "mean");
  ASSERT_EQ(ema.averages().size(), 2u);
  EXPECT_EQ(ema.averages()[0].name(), "mean.w");
  auto step = compile(world.mesh(), [&](Tensor x) {
    update(w, w + x);
    update(v, v * 0.5);
    ema.update();
  });
  double expected_w = 0, expected_v = 0;
  for (int t = 0; t < 3; ++t) {
    step(HostArray::of<double>({2}, {1, -1})).wait();
    const double first = 9 + t, scalar = 4 * std::pow(0.5, t + 1);
    expected_w = t == 0 ? first : 0.75 * expected_w + 0.25 * first;
    expected_v = t == 0 ? scalar : 0.75 * expected_v + 0.25 * scalar;
    EXPECT_NEAR(world.read(ema.averages()[0]).data<double>()[0], expected_w, 1e-12) << t;
    EXPECT_NEAR(world.read("mean.v").data<float>()[0], expected_v, 1e-6) << t;
  }
  EXPECT_EQ(world.read("mean.step").data<std::int64_t>()[0], 3);
}

TEST(Clipping, GradientsKeepTheirDirectionAndTheNormIsReturned) {
  World world;
  for (const double limit : {20.0, 13.0, 6.5, 0.0}) {
    auto clip = compile(world.mesh(), [&](Tensor a, Tensor b) {
      const optim::Clipped out = optim::clip_by_global_norm({a, b}, limit);
      return std::tuple(out.grads[0], out.grads[1], out.norm);
    });
    const Future out = clip(HostArray::of<double>({2}, {3, -4}), HostArray::of<double>({1, 1}, {12}));
    const double scale = std::min(1.0, limit / (13 + 1e-6));
    expect_numbers("first", numbers_of(out.value(0).read()), {3 * scale, -4 * scale}, 1e-12);
    expect_numbers("second", numbers_of(out.value(1).read()), {12 * scale}, 1e-12);
    EXPECT_EQ(out.item(2), 13);
  }
  const auto error = [&](const std::vector<Tensor>& grads, double limit) {
    const std::string text = error_of([&] { optim::clip_by_global_norm(grads, limit); });
    return text.substr(0, text.find("\n  at "));
  };
  EXPECT_EQ(error({}, 1), "clip_by_global_norm: at least one gradient is required");
  EXPECT_EQ(error({Tensor(1.0f)}, -1), "clip_by_global_norm: the norm limit is -1.0; it must be finite and at least 0");
  EXPECT_EQ(error({Tensor(1.0f), Tensor(HostArray::of<double>({2}, {1, 2}))}, 1),
            "clip_by_global_norm: all gradients must have the same dtype, got f32[] and f64[2]");
}

TEST(OptimiserOptions, ErrorsNameTheOptimiserTheOptionAndTheNumber) {
  const std::vector<Parameter> p = {Parameter("p", {DType::f64, {2}}, constant_init(0))};
  const std::vector<std::pair<std::string, std::function<void()>>> cases = {
      {"optimiser 'r': lr is -1.0; it must be finite and at least 0",
       [&] { optim::RMSprop(p, {.lr = -1, .name = "r"}); }},
      {"optimiser 'rmsprop': alpha is -1.0; it must be finite and at least 0",
       [&] { optim::RMSprop(p, {.alpha = -1}); }},
      {"optimiser 'rmsprop': alpha is 1.5; it must be at most 1", [&] { optim::RMSprop(p, {.alpha = 1.5}); }},
      {"no error", [&] { optim::RMSprop(p, {.alpha = 1}); }},
      {"optimiser 'rmsprop': eps is -1.0; it must be finite and at least 0", [&] { optim::RMSprop(p, {.eps = -1}); }},
      {"optimiser 'rmsprop': weight_decay is -1.0; it must be finite and at least 0",
       [&] { optim::RMSprop(p, {.weight_decay = -1}); }},
      {"optimiser 'rmsprop': momentum is -1.0; it must be finite and at least 0",
       [&] { optim::RMSprop(p, {.momentum = -1}); }},
      {"optimiser 'rmsprop' has no parameters", [] { optim::RMSprop({}, {}); }},
      {"optimiser 'a': lr is -1.0; it must be finite and at least 0",
       [&] { optim::Adagrad(p, {.lr = -1, .name = "a"}); }},
      {"optimiser 'adagrad': lr_decay is -1.0; it must be finite and at least 0",
       [&] { optim::Adagrad(p, {.lr_decay = -1}); }},
      {"optimiser 'adagrad': weight_decay is -1.0; it must be finite and at least 0",
       [&] { optim::Adagrad(p, {.weight_decay = -1}); }},
      {"optimiser 'adagrad': initial is -1.0; it must be finite and at least 0",
       [&] { optim::Adagrad(p, {.initial = -1}); }},
      {"optimiser 'adagrad': eps is -1.0; it must be finite and at least 0", [&] { optim::Adagrad(p, {.eps = -1}); }},
      {"optimiser 'adagrad' has no parameters", [] { optim::Adagrad({}, {}); }},
      {"optimiser 'l': lr is -1.0; it must be finite and at least 0", [&] { optim::Lion(p, {.lr = -1, .name = "l"}); }},
      {"optimiser 'lion': beta1 is 1.0; it must be in [0, 1)", [&] { optim::Lion(p, {.beta1 = 1}); }},
      {"optimiser 'lion': beta2 is -0.5; it must be in [0, 1)", [&] { optim::Lion(p, {.beta2 = -0.5}); }},
      {"optimiser 'lion': weight_decay is -1.0; it must be finite and at least 0",
       [&] { optim::Lion(p, {.weight_decay = -1}); }},
      {"optimiser 'lion' has no parameters", [] { optim::Lion({}, {}); }},
      {"optimiser 'adamw': beta1 is 1.0; it must be in [0, 1)", [&] { optim::AdamW(p, {.beta1 = 1}); }},
      {"optimiser 'adamw' has no parameters", [] { optim::AdamW({}, {}); }},
      {"average 'mean' has no parameters", [] { optim::EMA({}, 0.5, "mean"); }},
      {"average 'ema': decay is 1.0; it must be in [0, 1)", [&] { optim::EMA(p, 1); }},
      {"constant_schedule: lr is -1.0; it must be finite and at least 0", [] { optim::constant_schedule(-1); }},
      {"step_schedule: lr is -1.0; it must be finite and at least 0", [] { optim::step_schedule(-1, 1, 1); }},
      {"step_schedule: the factor is -1.0; it must be finite and at least 0", [] { optim::step_schedule(1, 1, -1); }},
      {"step_schedule: every is 0; it must be at least 1", [] { optim::step_schedule(1, 0, 1); }},
      {"cosine_schedule: lr is -1.0; it must be finite and at least 0", [] { optim::cosine_schedule(-1, 1); }},
      {"cosine_schedule: the minimum rate is -1.0; it must be finite and at least 0",
       [] { optim::cosine_schedule(1, 1, 0, -1); }},
      {"cosine_schedule: warmup must be at least 0 and below total; got warmup 3 and total 3",
       [] { optim::cosine_schedule(1, 3, 3); }},
      {"linear_schedule: warmup must be at least 0 and below total; got warmup -1 and total 3",
       [] { optim::linear_schedule(1, 3, -1); }},
  };
  for (const auto& [text, make] : cases) EXPECT_EQ(error_of(make), text);
}

TEST(Schedules, EveryStepHasARate) {
  const optim::Schedule half = optim::step_schedule(0.8, 10, 0.5), cosine = optim::cosine_schedule(2, 12, 4, 0.5),
                        linear = optim::linear_schedule(2, 12, 4, 0.5), late = optim::cosine_schedule(1, 2);
  const std::vector<std::int64_t> steps = {-5, 0, 1, 4, 6, 8, 10, 12, 30};
  const auto rates = [&](const optim::Schedule& schedule) {
    std::vector<double> out;
    for (std::int64_t step : steps) out.push_back(schedule(step));
    return out;
  };
  const double quarter = std::sqrt(0.5);
  expect_numbers("step", rates(half), {0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.4, 0.4, 0.1}, 1e-12);
  expect_numbers("linear", rates(linear), {0, 0, 0.5, 2, 1.625, 1.25, 0.875, 0.5, 0.5}, 1e-12);
  expect_numbers("cosine", rates(cosine),
                 {0, 0, 0.5, 2, 0.5 + 0.75 * (1 + quarter), 1.25, 0.5 + 0.75 * (1 - quarter), 0.5, 0.5}, 1e-12);
  EXPECT_NEAR(late(1), 0.5, 1e-12);
}

}  // namespace
}  // namespace karez
