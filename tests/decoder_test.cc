// Tests of training equivalence for a decoder with rotary grouped attention, and of normally distributed initial
// weights.
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

TEST(Initial, NormalInitialWeightsFollowTheNormalDistributionAndAreTheSameOnEveryMesh) {
  struct Net : nn::Module {
    nn::Embedding table{*this, "table", 400, 50};
  };
  Numbers first_values;
  for (const char* mesh : meshes) {
    World world({.devices = Mesh::parse(mesh).size(), .seed = 3});
    Net net;
    auto f = compile(world.mesh(mesh), [&](Tensor i) { return net.table(i); });
    HostArray index(TensorType{DType::i64, {2}});
    index.data<std::int64_t>()[0] = 3, index.data<std::int64_t>()[1] = 399;
    const Numbers rows = numbers_of(f(index).value().read()), all = numbers_of(world.read("table.weight"));
    if (first_values.empty()) first_values = all;
    EXPECT_EQ(all, first_values) << mesh;
    EXPECT_EQ(rows, [&] {
      Numbers expected(all.begin() + 150, all.begin() + 200);
      expected.insert(expected.end(), all.end() - 50, all.end());
      return expected;
    }());
  }
  double mean = 0, squares = 0, fourth = 0, beyond = 0;
  for (double value : first_values)
    mean += value / 20000, squares += value * value / 20000, fourth += std::pow(value, 4) / 20000,
        beyond += std::abs(value) > 1.96;
  EXPECT_NEAR(mean, 0, 0.03);
  EXPECT_NEAR(squares, 1, 0.05);
  EXPECT_NEAR(fourth, 3, 0.3);
  EXPECT_NEAR(beyond / 20000, 0.05, 0.01);
}

// A modern decoder with rotary grouped attention, RMS norms and gated layers.
struct Decoder : nn::Module {
  struct Layer : nn::Module {
    Layer(Module& parent, const std::string& name) : Module(parent, name) {}
    nn::RMSNorm norm1{*this, "norm1", {16}}, norm2{*this, "norm2", {16}};
    nn::MultiHeadAttention attention{
        *this, "attention", 16, 4, {.kv_heads = 2, .causal = true, .rotary = true, .bias = false}};
    nn::Linear gate{*this, "gate", 16, 24, false}, up{*this, "up", 16, 24, false}, down{*this, "down", 24, 16, false};
    Tensor operator()(Tensor x) {
      x = x + attention(norm1(x));
      Tensor y = norm2(x);
      return x + down(silu(gate(y)) * up(y));
    }
  };
  explicit Decoder(DType dtype) : Module(dtype) {}
  nn::Embedding tokens{*this, "tokens", 11, 16};
  Layer first{*this, "first"}, second{*this, "second"};
  nn::LayerNorm norm{*this, "norm", {16}};
  nn::Linear head{*this, "head", 16, 11};
  Tensor operator()(Tensor x) { return head(reshape(norm(second(first(tokens(x)))), {-1, 16})); }
};

Numbers losses(const std::string& mesh, const std::vector<LayoutRule>& rules = {}) {
  World world({.devices = Mesh::parse(mesh).size(), .seed = 3});
  Decoder net(DType::f64);
  optim::AdamW adam(net.parameters(), {.lr = 1e-2});
  optim::EMA ema(net.parameters(), 0.9);
  auto step = compile(world.mesh(mesh),
                      [&](Tensor x, Tensor y) {
                        Tensor loss = cross_entropy(net(x), y);
                        adam.step(optim::clip_by_global_norm(grad(loss, net.parameters()), 1).grads);
                        ema.update();
                        return loss;
                      },
                      {.rules = rules});
  std::mt19937 random(9);
  HostArray x(TensorType{DType::i32, {5, 6}}), y(TensorType{DType::i32, {30}});
  for (auto* tokens : {&x, &y})
    for (std::int32_t& value : tokens->data<std::int32_t>()) value = static_cast<std::int32_t>(random() % 11);
  Numbers result;
  for (int s = 0; s < 8; ++s) result.push_back(step(x, y).item());
  return result;
}

TEST(Decoder, TrainingGivesTheSameLossesOnEveryMeshWithin1e10) {
  const Numbers single_device = losses("");
  EXPECT_LT(single_device.back(), 0.8 * single_device.front());
  auto expect_same = [&](const Numbers& actual, const char* label) {
    for (std::size_t i = 0; i < single_device.size(); ++i)
      EXPECT_NEAR(actual[i], single_device[i], 1e-10 * single_device[i]) << label << ", step " << i;
  };
  for (const char* mesh : {"model=2", "data=3"}) expect_same(losses(mesh), mesh);
  if (std::getenv("KAREZ_ALL") != nullptr) expect_same(losses("data=4"), "data=4");
  const std::vector<LayoutRule> by_heads = {{"*.attention.{query,key,value}.weight", P("model", nullptr)},
                                            {"*.attention.out.weight", P(nullptr, "model")},
                                            {"*.{gate,up}.weight", P("model", nullptr)},
                                            {"*.down.weight", P(nullptr, "model")}};
  expect_same(losses("data=2,model=2", by_heads), "by heads");
}

}  // namespace
}  // namespace karez::tests
