// Tests of training equivalence: data, tensor and hybrid parallel training give the losses of training on one device.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "karez/karez.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {

// A small version of the demo's CNN with dropout. With `smooth`, it uses tanh and average pooling instead of ReLU and
// max pooling.
struct SmallCnn : nn::Module {
  SmallCnn(DType dtype, bool smooth) : Module(dtype), smooth(smooth) {}
  bool smooth;
  nn::Conv2d conv1{*this, "conv1", 1, 6, 3}, conv2{*this, "conv2", 6, 8, 3};
  nn::Linear fc1{*this, "fc1", 8 * 2 * 2, 24}, fc2{*this, "fc2", 24, 10};
  nn::Dropout drop{*this, "drop", 0.25};

  Tensor operator()(Tensor x) {
    auto act = [&](Tensor t) { return smooth ? tanh(t) : relu(t); };
    auto pool = [&](Tensor t) { return smooth ? avg_pool(t, 2) : max_pool(t, 2); };
    x = pool(act(conv1(x)));
    x = pool(act(conv2(x)));
    return fc2(drop(act(fc1(flatten(x)))));
  }
};

struct Setting {
  std::string mesh;
  std::vector<LayoutRule> rules;
};

// Returns the losses of `steps` steps; a batch of 13 is uneven on every mesh.
std::vector<double> losses(const Setting& run, DType dtype, bool smooth, int steps) {
  Mesh shape = Mesh::parse(run.mesh);
  World world({.devices = shape.size(), .seed = 5});
  SmallCnn net(dtype, smooth);
  optim::Adam adam(net.parameters(), {.lr = 2e-3});
  auto step = compile(world.mesh(shape.axes),
                      [&](Tensor x, Tensor y) {
                        Tensor loss = cross_entropy(net(x), y);
                        adam.step(grad(loss, net.parameters()));
                        return loss;
                      },
                      {.rules = run.rules});
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  std::vector<double> result;
  constexpr std::int64_t batch = 13;
  for (int s = 0; s < steps; ++s) {
    HostArray x(TensorType{dtype, {batch, 1, 14, 14}}), y(TensorType{DType::i32, {batch}});
    with_type(dtype, [&]<class T>() {
      for (T& value : x.data<T>()) value = static_cast<T>(normal(random));
    });
    for (std::int32_t& label : y.data<std::int32_t>()) label = static_cast<std::int32_t>(random() % 10);
    result.push_back(step(x, y).item());
  }
  return result;
}

const std::vector<LayoutRule> by_rule = {{"conv*.weight", P("model")},
                                         {"conv*.bias", P("model")},
                                         {"fc1.weight", P("model", nullptr)},
                                         {"fc1.bias", P("model")},
                                         {"fc2.weight", P(nullptr, "model")}};

// Every mesh runs with layouts chosen by the planner. Meshes with a model axis also run with rules that split
// convolution channels, and dense layers by columns and then by rows.
std::vector<Setting> settings() {
  return {{"data=4", {}}, {"model=4", {}}, {"data=2,model=2", {}}, {"model=4", by_rule}, {"data=2,model=2", by_rule}};
}

double max_difference(const std::vector<double>& a, const std::vector<double>& b, std::size_t steps) {
  double largest = 0;
  for (std::size_t i = 0; i < steps; ++i) largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(a[i]));
  return largest;
}

TEST(TrainingEquivalence, SmoothTrainingInF64IsEqualOnEveryMeshWithin1e10) {
  auto single_device = losses({"", {}}, DType::f64, true, 50);
  EXPECT_LT(single_device.back(), single_device.front());
  for (const Setting& run : settings()) {
    auto distributed = losses(run, DType::f64, true, 50);
    EXPECT_LE(max_difference(single_device, distributed, 50), 1e-10)
        << run.mesh << (run.rules.empty() ? " free" : " by rule");
  }
}

TEST(TrainingEquivalence, SmoothTrainingInF32IsEqualOnEveryMeshWithin1e5) {
  auto single_device = losses({"", {}}, DType::f32, true, 50);
  for (const Setting& run : settings()) {
    auto distributed = losses(run, DType::f32, true, 50);
    EXPECT_LE(max_difference(single_device, distributed, 50), 1e-5)
        << run.mesh << (run.rules.empty() ? " free" : " by rule");
  }
}

TEST(TrainingEquivalence, ReluTrainingInF32IsEqualWithin1e6AfterAStepAndStaysClose) {
  auto single_device = losses({"", {}}, DType::f32, false, 50);
  for (const Setting& run : settings()) {
    auto distributed = losses(run, DType::f32, false, 50);
    EXPECT_LE(max_difference(single_device, distributed, 2), 1e-6)
        << run.mesh << (run.rules.empty() ? " free" : " by rule");
    EXPECT_LE(max_difference(single_device, distributed, 50), 5e-2)
        << run.mesh << (run.rules.empty() ? " free" : " by rule");
  }
}

TEST(TrainingEquivalence, ARerunGivesTheSameBits) {
  EXPECT_EQ(losses({"", {}}, DType::f32, false, 10), losses({"", {}}, DType::f32, false, 10));
  for (const Setting& run : settings())
    EXPECT_EQ(losses(run, DType::f32, false, 10), losses(run, DType::f32, false, 10)) << run.mesh;
}

}  // namespace
}  // namespace karez::tests
