// Defines a model whose parts are placed on different meshes, for the tests of placements and pipelines.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "karez/karez.h"
#include "karez/plan/plan.h"
#include "tests/namespace.h"

namespace karez::tests {

// A block of a model that has four blocks with dropout between an entry and a head.
struct Block4 : nn::Module {
  Block4(Module& parent, const std::string& name, std::int64_t width)
      : Module(parent, name),
        up(*this, "up", width, 2 * width),
        down(*this, "down", 2 * width, width),
        drop(*this, "drop", 0.2) {}
  nn::Linear up, down;
  nn::Dropout drop;
  Tensor operator()(Tensor x) { return x + drop(down(tanh(up(x)))); }
};

struct Tower : nn::Module {
  Tower() : Module(DType::f64) {}
  nn::Linear entry{*this, "entry", 6, 10};
  Block4 block0{*this, "block0", 10}, block1{*this, "block1", 10}, block2{*this, "block2", 10},
      block3{*this, "block3", 10};
  nn::Linear head{*this, "head", 10, 5};
  Tensor operator()(Tensor x) { return head(block3(block2(block1(block0(entry(x)))))); }
};

struct PlacementResult {
  std::vector<double> losses;
  HostArray up;
  std::int64_t planned = 0, counted = 0;  // bytes of all transfers, over all steps
  std::string graph;
};

// Makes the placement rules for a world. It is a function, because meshes belong to a world.
using Rules = std::function<std::vector<PlacementRule>(World&)>;

inline PlacementResult train(int devices, const std::string& mesh, const Rules& rules, int microbatches = 1,
                             const std::vector<LayoutRule>& layouts = {}) {
  constexpr int steps = 20;
  World world({.devices = devices, .seed = 5});
  Tower net;
  optim::Adam adam(net.parameters(), {.lr = 2e-3});
  auto step = compile(world.mesh(mesh),
                      [&](Tensor x, Tensor y) {
                        Tensor loss = cross_entropy(net(x), y);
                        adam.step(grad(loss, net.parameters()));
                        return loss;
                      },
                      {.rules = layouts, .placements = rules(world), .microbatches = microbatches});
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  PlacementResult out;
  constexpr std::int64_t batch = 12;
  for (int s = 0; s < steps; ++s) {
    HostArray x(TensorType{DType::f64, {batch, 6}}), y(TensorType{DType::i32, {batch}});
    for (double& value : x.data<double>()) value = normal(random);
    for (std::int32_t& label : y.data<std::int32_t>()) label = static_cast<std::int32_t>(random() % 5);
    out.losses.push_back(step(x, y).item());
  }
  out.up = world.read("block2.up.weight");
  for (const auto& transfer : step.plan().transfers) out.planned += steps * transfer.bytes;
  for (const auto& [kind, bytes] : world.counters().sent_bytes) out.counted += bytes;
  out.graph = step.graph_text();
  return out;
}

inline const PlacementResult& single_device_result() {
  static const PlacementResult result = train(1, "", [](World&) { return std::vector<PlacementRule>{}; });
  return result;
}

inline void expect_same(const PlacementResult& actual) {
  const PlacementResult& expected = single_device_result();
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i)
    EXPECT_NEAR(actual.losses[i], expected.losses[i], 1e-10 * std::abs(expected.losses[i])) << "step " << i;
  for (std::int64_t i = 0; i < expected.up.count(); ++i)
    EXPECT_NEAR(actual.up.data<double>()[static_cast<std::size_t>(i)],
                expected.up.data<double>()[static_cast<std::size_t>(i)], 1e-9)
        << "weight " << i;
  EXPECT_EQ(actual.planned, actual.counted);
}

}  // namespace karez::tests
