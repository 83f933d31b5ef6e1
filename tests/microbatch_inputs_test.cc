// Tests of the inputs, results, transfers and memory of programs with micro-batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <string_view>

#include "karez/karez.h"
#include "tests/microbatch_cases.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {

struct Regressor : nn::Module {
  Regressor() : Module(DType::f64) {}
  nn::Linear fc{*this, "fc", 3, 2, false};
};

// All launches begin before a result is read, and each has its own batch.
TEST(MicroBatches, SourcesAreReadInMicroBatchesWithSeveralLaunchesInFlight) {
  std::vector<std::vector<double>> losses;
  for (int m : {1, 4}) {
    World world({.devices = 2, .in_flight = 4});
    Regressor net;
    optim::SGD sgd(net.parameters(), {.lr = 1e-3});
    auto step = compile(world.mesh("data=2"),
                        [&](Tensor x) {
                          Tensor y = net.fc(x), loss = sum(y * y);
                          sgd.step(grad(loss, net.parameters()));
                          return loss;
                        },
                        {.microbatches = m});
    struct Numbers : Source {
      TensorType type() const override { return {DType::f64, {8, 3}}; }
      void read(std::int64_t position, std::span<const std::int64_t> begin, const TensorRef& out) const override {
        for (std::int64_t i = 0; i < out.view->shape[0]; ++i)
          for (std::int64_t j = 0; j < 3; ++j)
            out.as<double>()[i * out.view->strides[0] + j * out.view->strides[1]] =
                std::sin(static_cast<double>(100 * position + 3 * (begin[0] + i) + begin[1] + j));
      }
    };
    auto source = std::make_shared<Numbers>();
    std::vector<Future> futures;
    for (std::int64_t s = 0; s < 12; ++s) futures.push_back(step(Feed{source, s}));
    losses.emplace_back();
    for (Future& future : futures) losses.back().push_back(future.item());
  }
  EXPECT_LE(max_difference(losses[0], losses[1]), 1e-10);
}

// A result that is split over the mesh is the batch of the next call.
TEST(MicroBatches, AnArrayOnTheMeshIsDividedIntoMicroBatches) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("data=2");
  HostArray x(TensorType{DType::f64, {8, 3}});
  for (std::size_t i = 0; i < 24; ++i) x.data<double>()[i] = std::cos(static_cast<double>(i));
  auto make_split = compile(mesh, [](Tensor v) { return with_layout(v * 2.0, P("data")); });
  auto body = [](Tensor v) { return std::pair(tanh(v), sum(v * v)); };
  auto undivided = compile(mesh, body), divided = compile(mesh, body, {.microbatches = 4});
  Array shared_result = make_split(x).value(0);
  Future a = undivided(shared_result), b = divided(shared_result);
  const HostArray ya = a.value(0).read(), yb = b.value(0).read();
  for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(ya.data<double>()[i], yb.data<double>()[i]);
  EXPECT_NEAR(a.item(1), b.item(1), 1e-12);
}

TEST(MicroBatches, PlannedTransfersEqualCountedTransfers) {
  for (const char* text : {"data=2", "data=3", "data=2,model=2"}) {
    const Mesh shape = Mesh::parse(text);
    World world({.devices = shape.size(), .costs = prefer_splitting()});
    DropoutMlp net(0.2);
    optim::Adam adam(net.parameters(), {.lr = 1e-2});
    std::vector<LayoutRule> rules;
    if (shape.axes.size() > 1) rules = {{"fc1.weight", P("model", nullptr)}};
    auto step = compile(world.mesh(shape.axes),
                        [&](Tensor x, Tensor y) {
                          Tensor logits = net(x), loss = cross_entropy(logits, y);
                          adam.step(grad(loss, net.parameters()));
                          return std::pair(loss, logits);
                        },
                        {.rules = rules, .microbatches = 4});
    std::mt19937 random(1);
    HostArray x = images(random, 16), y = labels(random, 16);
    step(x, y).wait();
    const Counters before = world.counters();
    for (int i = 0; i < 3; ++i) step(x, y).wait();
    const Counters after = world.counters();
    std::int64_t planned = 0, counted = 0;
    for (const Transfer& transfer : step.plan().transfers) planned += 3 * transfer.bytes;
    for (const auto& [kind, bytes] : after.sent_bytes)
      counted += bytes - (before.sent_bytes.count(kind) ? before.sent_bytes.at(kind) : 0);
    EXPECT_EQ(planned, counted) << text << "\n" << step.summary();
    EXPECT_GT(planned, 0);
  }
}

// Only the values of one micro-batch are kept for the backward pass.
TEST(MicroBatches, ThePeakMemoryOfADeepNetDecreasesWithTheNumberOfMicroBatches) {
  struct Deep : nn::Module {
    std::vector<std::unique_ptr<nn::Linear>> layers;
    Deep() {
      for (int i = 0; i < 12; ++i) layers.push_back(std::make_unique<nn::Linear>(*this, cat("fc", i), 16, 16));
    }
    Tensor operator()(Tensor x) {
      for (auto& layer : layers) x = tanh((*layer)(x));
      return x;
    }
  };
  std::map<int, std::int64_t> peak;
  for (int m : {1, 2, 8}) {
    World world;
    Deep net;
    optim::SGD sgd(net.parameters(), {.lr = 0.1});
    auto step = compile(world.mesh(),
                        [&](Tensor x) {
                          Tensor loss = mean(net(x));
                          sgd.step(grad(loss, net.parameters()));
                          return loss;
                        },
                        {.microbatches = m});
    step.compile({{DType::f32, {1024, 16}}});
    peak[m] = step.peak_bytes();
  }
  EXPECT_LT(peak[2], peak[1]);
  EXPECT_LT(4 * peak[8], peak[1]) << peak[8] << " of " << peak[1];
}

}  // namespace
}  // namespace karez::tests
