// Tests that training gives the losses of one device if gradients are summed over devices in buckets.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>

#include "karez/karez.h"

namespace karez {
namespace {

// A net of parallel layers, whose gradients are ready at the same time.
struct Wide : nn::Module {
  std::vector<std::unique_ptr<nn::Linear>> layers;
  Wide() : Module(DType::f64) {
    for (int i = 0; i < 6; ++i) layers.push_back(std::make_unique<nn::Linear>(*this, cat("fc", i), 8, 5 + i % 2));
  }
  Tensor operator()(Tensor x) {
    Tensor sum = mean(tanh((*layers[0])(x)));
    for (std::size_t i = 1; i < layers.size(); ++i)
      sum = sum + mean(tanh((*layers[i])(x * (1.0 + static_cast<double>(i)))));
    return sum;
  }
};

struct Trained {
  std::vector<double> losses;
  bool buckets = false;
};

Trained train(const std::string& axes, double alpha) {
  CostTable costs;
  costs.link = {alpha, 1e-9};
  costs.matmul_flops = 3e7;  // so that no device does all the work
  World world({.devices = Mesh::parse(axes).size(), .seed = 3, .costs = costs});
  Wide net;
  optim::Adam adam(net.parameters(), {.lr = 1e-2});
  auto step = compile(world.mesh(axes), [&](Tensor x) {
    Tensor loss = net(x);
    adam.step(grad(loss, net.parameters()));
    return loss;
  });
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  Trained out;
  for (int s = 0; s < 20; ++s) {
    HostArray x({DType::f64, {600, 8}});
    for (double& value : x.data<double>()) value = normal(random);
    out.losses.push_back(step(x).item());
  }
  out.buckets = step.plan_text().find("concat") != std::string::npos;
  return out;
}

TEST(Buckets, LossesEqualThoseOfOneDevice) {
  const Trained reference = train("", 1e-4);
  EXPECT_FALSE(reference.buckets);
  EXPECT_NE(reference.losses.front(), reference.losses.back());
  for (const char* axes : {"data=2", "data=4", "data=2,model=2"}) {
    const Trained bucketed = train(axes, 1e-4), unbucketed = train(axes, 1e-6);
    if (axes == std::string("data=2")) { EXPECT_TRUE(bucketed.buckets); }
    EXPECT_FALSE(unbucketed.buckets) << axes << ": with cheap messages, buckets save no time and must not be used";
    for (std::size_t s = 0; s < reference.losses.size(); ++s) {
      EXPECT_NEAR(bucketed.losses[s], reference.losses[s], 1e-10 * std::abs(reference.losses[s]))
          << axes << ", step " << s;
      EXPECT_NEAR(unbucketed.losses[s], bucketed.losses[s], 1e-10 * std::abs(reference.losses[s]))
          << axes << ", step " << s;
    }
  }
}

}  // namespace
}  // namespace karez
