// Tests of ZeRO by layout rules. The optimiser's state, or also the parameters, are split over the data-parallel
// devices, without changes to the model or the training loop.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "karez/karez.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {

struct Mlp : nn::Module {
  Mlp() : Module(DType::f64) {}
  nn::Linear fc1{*this, "fc1", 16, 64}, fc2{*this, "fc2", 64, 32}, fc3{*this, "fc3", 32, 8};
  Tensor operator()(Tensor x) { return fc3(relu(fc2(tanh(fc1(x))))); }
};

struct Result {
  std::vector<double> losses;
  std::vector<std::int64_t> state, parameters;  // bytes by device
  std::int64_t planned = 0, counted = 0;        // bytes sent in all steps after the first
};

std::int64_t total_sent_bytes(const World& world) {
  std::int64_t bytes = 0;
  for (const auto& [kind, of_kind] : world.counters().sent_bytes) bytes += of_kind;
  return bytes;
}

Result train(const std::string& mesh, const std::vector<LayoutRule>& rules) {
  constexpr int steps = 20;
  constexpr std::int64_t batch = 256;
  const Mesh shape = Mesh::parse(mesh);
  World world({.devices = shape.size(), .seed = 3});
  Mlp net;
  optim::Adam adam(net.parameters(), {.lr = 2e-3});
  auto step = compile(world.mesh(mesh),
                      [&](Tensor x, Tensor y) {
                        x = shape.size() > 1 ? with_layout(x, P("data", nullptr)) : x;
                        Tensor loss = cross_entropy(net(x), y);
                        adam.step(grad(loss, net.parameters()));
                        return loss;
                      },
                      {.rules = rules});
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  Result out;
  std::int64_t first = 0;  // bytes sent in the first step, including the initialisation of variables
  for (int s = 0; s < steps; ++s) {
    HostArray x(TensorType{DType::f64, {batch, 16}}), y(TensorType{DType::i32, {batch}});
    for (double& value : x.data<double>()) value = normal(random);
    for (std::int32_t& label : y.data<std::int32_t>()) label = static_cast<std::int32_t>(random() % 8);
    out.losses.push_back(step(x, y).item());
    if (s == 0) first = total_sent_bytes(world);
  }
  out.state.assign(static_cast<std::size_t>(shape.size()), 0);
  out.parameters = out.state;
  for (const auto& block : step.plan().blocks) {
    if (block.kind != plan::BlockKind::variable || block.name == "adam.step") continue;
    auto& bytes = block.name.starts_with("adam.") ? out.state : out.parameters;
    bytes[static_cast<std::size_t>(block.device.index)] += block.bytes;
  }
  for (const auto& transfer : step.plan().transfers) out.planned += (steps - 1) * transfer.bytes;
  out.counted = total_sent_bytes(world) - first;
  return out;
}

const Result& single_device_result() {
  static const Result single_device = train("", {});
  return single_device;
}

const std::vector<LayoutRule> data_parallel = {{"fc*.weight", P(nullptr, nullptr)},
                                               {"fc*.bias", P(nullptr)},
                                               {"adam.*.*.weight", P(nullptr, nullptr)},
                                               {"adam.*.*.bias", P(nullptr)}};
const std::vector<LayoutRule> state_split = {{"fc*.weight", P(nullptr, nullptr)},
                                             {"fc*.bias", P(nullptr)},
                                             {"adam.*.*.weight", P("data", nullptr)},
                                             {"adam.*.*.bias", P("data")}};
const std::vector<LayoutRule> all_split = {{"fc*.weight", P("data", nullptr)},
                                           {"fc*.bias", P("data")},
                                           {"adam.*.*.weight", P("data", nullptr)},
                                           {"adam.*.*.bias", P("data")}};

void expect_same_training(const Result& actual) {
  const Result& single_device = single_device_result();
  ASSERT_EQ(actual.losses.size(), single_device.losses.size());
  for (std::size_t i = 0; i < single_device.losses.size(); ++i)
    EXPECT_NEAR(actual.losses[i], single_device.losses[i], 1e-10 * std::abs(single_device.losses[i])) << "step " << i;
  EXPECT_EQ(actual.planned, actual.counted);
}

constexpr std::int64_t parameter_count = (16 + 1) * 64 + (64 + 1) * 32 + (32 + 1) * 8;

TEST(Zero, EachDeviceHasOnePartOfTheOptimisersState) {
  const Result zero = train("data=4", state_split);
  expect_same_training(zero);
  for (std::int64_t bytes : zero.state)
    EXPECT_NEAR(static_cast<double>(bytes), 2. * parameter_count * 8 / 4, 0.02 * 2 * parameter_count * 8 / 4);
  for (std::int64_t bytes : zero.parameters) EXPECT_EQ(bytes, parameter_count * 8);
}

TEST(Zero, ParametersCanBeSplitToo) {
  const Result zero = train("data=4", all_split);
  expect_same_training(zero);
  for (std::int64_t bytes : zero.state)
    EXPECT_NEAR(static_cast<double>(bytes), 2. * parameter_count * 8 / 4, 0.02 * 2 * parameter_count * 8 / 4);
  for (std::int64_t bytes : zero.parameters)
    EXPECT_NEAR(static_cast<double>(bytes), parameter_count * 8. / 4, 0.02 * parameter_count * 8 / 4);
}

// Gradients are reduce-scattered and parameters all-gathered, which together send the bytes of an all_reduce.
TEST(Zero, ZeroSendsNoMoreThanDataParallelTraining) {
  const Result replicated = train("data=4", data_parallel), zero = train("data=4", state_split);
  expect_same_training(replicated);
  for (std::int64_t bytes : replicated.state) EXPECT_EQ(bytes, 2 * parameter_count * 8);
  EXPECT_LE(zero.counted, replicated.counted);
  // Each of n devices sends (n - 1) / n of every gradient and parameter, and at most the loss of each row to the
  // others.
  EXPECT_LE(zero.counted, 19 * (2 * 3 * parameter_count + 3 * 256) * 8);
}

}  // namespace
}  // namespace karez::tests
