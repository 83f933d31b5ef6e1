// Tests of optimisers, gradient clipping and weight averages against their formulas, on one device and on meshes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include "tests/expect_function.h"

namespace karez::tests {
namespace {

TEST(Optimisers, RmspropAndAdamwMatchTheirFormulas) {
  const Shape shape = {4, 3};
  const Numbers first = random_numbers(12, 1);
  std::vector<Numbers> grads;
  for (unsigned s = 0; s < 4; ++s) grads.push_back(random_numbers(12, 10 + s));
  struct Weight : nn::Module {
    explicit Weight(Shape s) : Module(DType::f64), weight(make_parameter("weight", std::move(s), uniform_init(1))) {}
    Parameter weight;
  };
  auto train_weights = [&](const std::string& mesh, auto make) {
    World world({.devices = Mesh::parse(mesh).size()});
    Weight net(shape);
    auto optimiser = make(net.parameters());
    auto step = compile(world.mesh(mesh), [&](Tensor g) { optimiser.step({g}); });
    step.compile({{DType::f64, shape}});
    auto read = compile(world.mesh(mesh), [&] { return net.weight + 0; });
    std::vector<Numbers> weights{numbers_of(read().value().read())};
    for (const Numbers& g : grads) {
      step(array(shape, g)).wait();
      weights.push_back(numbers_of(world.read("weight")));
    }
    return weights;
  };
  for (const char* mesh : meshes) {
    for (bool centered : {false, true})
      for (double momentum : {0.0, 0.9}) {
        const auto got = train_weights(mesh, [&](auto parameters) {
          return optim::RMSprop(
              parameters, {.lr = 0.1, .alpha = 0.9, .weight_decay = 0.01, .momentum = momentum, .centered = centered});
        });
        Numbers w = got[0], v(12, 0.0), mean(12, 0.0), m(12, 0.0);
        for (std::size_t s = 0; s < grads.size(); ++s) {
          for (std::size_t i = 0; i < 12; ++i) {
            const double g = grads[s][i] + 0.01 * w[i];
            v[i] = 0.9 * v[i] + 0.1 * g * g;
            mean[i] = 0.9 * mean[i] + 0.1 * g;
            const double step_size = g / (std::sqrt(centered ? v[i] - mean[i] * mean[i] : v[i]) + 1e-8);
            m[i] = momentum * m[i] + step_size;
            w[i] -= 0.1 * (momentum > 0 ? m[i] : step_size);
          }
          expect_near(got[s + 1], w,
                      cat("RMSprop on '", mesh, "', centred ", centered, ", momentum ", momentum, ", step ", s), 1e-10);
        }
      }
    const auto got =
        train_weights(mesh, [](auto parameters) { return optim::AdamW(parameters, {.lr = 0.1, .weight_decay = 0.2}); });
    Numbers w = got[0], m(12, 0.0), v(12, 0.0);
    for (std::size_t s = 0; s < grads.size(); ++s) {
      for (std::size_t i = 0; i < 12; ++i) {
        m[i] = 0.9 * m[i] + 0.1 * grads[s][i];
        v[i] = 0.999 * v[i] + 0.001 * grads[s][i] * grads[s][i];
        const double t = static_cast<double>(s + 1),
                     step = m[i] / (1 - std::pow(0.9, t)) / (std::sqrt(v[i] / (1 - std::pow(0.999, t))) + 1e-8);
        w[i] -= 0.1 * (step + 0.2 * w[i]);
      }
      expect_near(got[s + 1], w, cat("AdamW on '", mesh, "', step ", s), 1e-10);
    }
  }
}

TEST(Optimisers, ClippedGradientsAndWeightAveragesMatchTheirFormulas) {
  const HostArray a = random_array({6}, 1), b = random_array({2, 3}, 2);
  double squares = 0;
  for (const HostArray* input : {&a, &b})
    for (double value : numbers_of(*input)) squares += value * value;
  for (const char* mesh : meshes)
    for (double max_norm : {0.5, 100.0}) {
      auto got = run(mesh,
                     [&](auto in) {
                       auto clipped = optim::clip_by_global_norm(in, max_norm);
                       return std::vector{clipped.norm, clipped.grads[0], clipped.grads[1]};
                     },
                     {a, b});
      expect_near(got[0], {std::sqrt(squares)}, "the norm");
      const double scale = std::min(1.0, max_norm / (std::sqrt(squares) + 1e-6));
      for (std::size_t i = 0; i < 2; ++i) {
        Numbers expected = numbers_of(i == 0 ? a : b);
        for (double& value : expected) value *= scale;
        expect_near(got[i + 1], expected, "a clipped gradient");
      }
    }
  World world({.devices = 2});
  struct Weight : nn::Module {
    Weight() : Module(DType::f64), weight(make_parameter("weight", {4}, constant_init(1))) {}
    Parameter weight;
  } net;
  optim::SGD sgd(net.parameters(), {.lr = 1});
  optim::EMA ema(net.parameters(), 0.75);
  auto step = compile(world.mesh("data=2"), [&](Tensor g) {
    sgd.step({g});
    ema.update();
  });
  Numbers w(4, 1.0), average;
  for (int s = 0; s < 4; ++s) {
    const Numbers g = random_numbers(4, static_cast<unsigned>(s));
    step(array({4}, g)).wait();
    for (std::size_t i = 0; i < 4; ++i) w[i] -= g[i];
    if (s == 0) average = w;
    for (std::size_t i = 0; s > 0 && i < 4; ++i) average[i] = 0.75 * average[i] + 0.25 * w[i];
    expect_near(numbers_of(world.read("ema.weight")), average, cat("the average after step ", s));
  }
}

}  // namespace
}  // namespace karez::tests
