// Tests of training equivalence for micro-batches: a batch that is divided into micro-batches trains as the undivided
// batch does.
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

// ---- models, in f64

struct Cnn : nn::Module {
  explicit Cnn(double drop) : Module(DType::f64), drop{*this, "drop", drop} {}
  nn::Conv2d conv{*this, "conv", 1, 4, 2};
  nn::Linear fc{*this, "fc", 4 * 2, 4};
  nn::Dropout drop;
  Tensor operator()(Tensor x) { return fc(drop(flatten(tanh(conv(x))))); }
};

struct Attention : nn::Module {
  explicit Attention(double drop) : Module(DType::f64), drop{*this, "drop", drop} {}
  static Tensor normalised(Tensor x) {
    Tensor d = x - mean(x, {2}, true);
    return d / sqrt(mean(d * d, {2}, true) + 1e-5);
  }
  // Keys have no bias: softmax does not depend on it, so its gradient would be rounding errors, which Adam amplifies.
  nn::Linear in{*this, "in", 3, 8}, q{*this, "q", 8, 8}, k{*this, "k", 8, 8, false}, v{*this, "v", 8, 8},
      out{*this, "out", 16, 4};
  nn::Dropout drop;
  Tensor operator()(Tensor x) {
    const std::int64_t n = x.shape()[0];
    Tensor h = normalised(in(reshape(x, {n, 2, 3})));
    Tensor score = softmax(matmul(q(h), transpose(k(h))) * 0.3, 2);
    return out(reshape(drop(h + matmul(score, v(h))), {n, 16}));
  }
};

// ---- training

enum class Optimiser { sgd, momentum, adam };

struct Setting {
  std::string mesh;
  int microbatches = 1;
  std::vector<LayoutRule> rules = {};
  std::vector<PlacementRule> placements = {};
};

struct Outcome {
  std::vector<double> losses;
  std::vector<double> values;  // logits of the last step, then all weights
};

template <class Net>
Outcome train(const Setting& run, Optimiser optimiser, double drop, int steps, std::int64_t batch) {
  const Mesh shape = Mesh::parse(run.mesh);
  World world({.devices = shape.size(), .seed = 5, .costs = prefer_splitting()});
  Net net(drop);
  std::optional<optim::Adam> adam;
  std::optional<optim::SGD> sgd;
  if (optimiser == Optimiser::adam) adam.emplace(net.parameters(), optim::AdamOptions{.lr = 1e-2});
  else
    sgd.emplace(net.parameters(),
                optim::SGDOptions{.lr = 0.05, .momentum = optimiser == Optimiser::momentum ? 0.9 : 0.0});
  auto step = compile(world.mesh(shape.axes),
                      [&](Tensor x, Tensor y) {
                        Tensor logits = net(x);
                        Tensor loss = cross_entropy(logits, y);
                        auto gradients = grad(loss, net.parameters());
                        if (adam) adam->step(gradients);
                        else sgd->step(gradients);
                        return std::pair(loss, logits);
                      },
                      {.rules = run.rules, .placements = run.placements, .microbatches = run.microbatches});
  std::mt19937 random(7);
  Outcome out;
  for (int s = 0; s < steps; ++s) {
    HostArray x = images(random, batch), y = labels(random, batch);
    auto result = step(x, y);
    out.losses.push_back(result.template item<double>(0));
    if (s + 1 < steps) continue;
    const HostArray logits = result.value(1).read();
    EXPECT_EQ(logits.type(), (TensorType{DType::f64, {batch, 4}}));
    out.values.assign(logits.data<double>().begin(), logits.data<double>().end());
  }
  if (shape.size() > 1) {
    EXPECT_GT(step.plan().transfers.size(), 0u) << run.mesh << ": the planner must split the work over the devices";
  }
  for (const auto& [name, parameter] : net.named_parameters()) {
    HostArray value = world.read(parameter);
    out.values.insert(out.values.end(), value.data<double>().begin(), value.data<double>().end());
  }
  return out;
}

// Compares training in micro-batches on several meshes with training on the undivided batch; with KAREZ_ALL=1, tests
// every number of micro-batches on every mesh.
template <class Net> void expect_same_on_all_meshes(Optimiser optimiser, double drop, int steps) {
  constexpr std::int64_t batch = 16;
  const Outcome whole_batch = train<Net>({""}, optimiser, drop, steps, batch);
  for (const char* mesh : {"", "data=2", "data=3", "data=2,model=2"})
    for (int m : {1, 2, 4, 8}) {
      if (m == 1 && mesh[0] == 0) continue;
      if ((m == 2 || m == 8) && std::string_view(mesh) != "data=3" && std::getenv("KAREZ_ALL") == nullptr) continue;
      const Outcome micro_batched = train<Net>({mesh, m}, optimiser, drop, steps, batch);
      EXPECT_LE(max_difference(whole_batch.losses, micro_batched.losses), 1e-10) << mesh << " microbatches=" << m;
      EXPECT_LE(max_difference(whole_batch.values, micro_batched.values), 1e-10) << mesh << " microbatches=" << m;
    }
}

TEST(MicroBatches, AnMlpTrainsTheSameWithAnyNumberOfMicroBatchesOnEveryMesh) {
  expect_same_on_all_meshes<DropoutMlp>(Optimiser::sgd, 0, 50);
  expect_same_on_all_meshes<DropoutMlp>(Optimiser::adam, 0, 20);
}
TEST(MicroBatches, DropoutDropsTheSameElementsInMicroBatches) {
  expect_same_on_all_meshes<DropoutMlp>(Optimiser::momentum, 0.4, 20);
}
TEST(MicroBatches, ACnnTrainsTheSameInMicroBatches) { expect_same_on_all_meshes<Cnn>(Optimiser::momentum, 0.3, 20); }
TEST(MicroBatches, ATransformerTrainsTheSameInMicroBatches) {
  expect_same_on_all_meshes<Attention>(Optimiser::adam, 0.2, 10);
}

TEST(MicroBatches, ARerunGivesTheSameBits) {
  for (const char* mesh : {"", "data=3", "data=2,model=2"}) {
    const Outcome first = train<DropoutMlp>({mesh, 4}, Optimiser::adam, 0.3, 5, 16),
                  rerun = train<DropoutMlp>({mesh, 4}, Optimiser::adam, 0.3, 5, 16);
    EXPECT_EQ(first.losses, rerun.losses) << mesh;
    EXPECT_EQ(first.values, rerun.values) << mesh;
  }
}

TEST(MicroBatches, LayersSplitByRuleTrainTheSame) {
  const std::vector<LayoutRule> rules = {
      {"fc1.weight", P("model", nullptr)}, {"fc1.bias", P("model")}, {"fc2.weight", P(nullptr, "model")}};
  const Outcome whole_batch = train<DropoutMlp>({""}, Optimiser::adam, 0.2, 10, 24);
  for (const char* mesh : {"model=2", "data=2,model=2", "model=3"})
    for (int m : {3, 8}) {
      const Outcome micro_batched = train<DropoutMlp>({mesh, m, rules}, Optimiser::adam, 0.2, 10, 24);
      EXPECT_LE(max_difference(whole_batch.losses, micro_batched.losses), 1e-10) << mesh << " " << m;
      EXPECT_LE(max_difference(whole_batch.values, micro_batched.values), 1e-10) << mesh << " " << m;
    }
}

TEST(MicroBatches, LayersOnSeveralPlacementsTrainTheSame) {
  const std::vector<PlacementRule> stages = {{"fc1", 0}, {"fc2", 1}, {"fc3", 1}};
  const Outcome whole_batch = train<DropoutMlp>({""}, Optimiser::adam, 0.2, 10, 16);
  for (const char* mesh : {"stage=2", "stage=2,data=2"})
    for (int m : {1, 4, 8}) {
      const Outcome micro_batched = train<DropoutMlp>({mesh, m, {}, stages}, Optimiser::adam, 0.2, 10, 16);
      EXPECT_LE(max_difference(whole_batch.losses, micro_batched.losses), 1e-10) << mesh << " " << m;
      EXPECT_LE(max_difference(whole_batch.values, micro_batched.values), 1e-10) << mesh << " " << m;
    }
}

// The mean is over all labels of the batch that are not ignored; some micro-batches have few such labels or none.
TEST(MicroBatches, IgnoredLabelsAndRowWeightsTrainTheSame) {
  struct Net : nn::Module {
    Net() : Module(DType::f64) {}
    nn::Linear fc{*this, "fc", 6, 4};
  };
  const auto train = [](const std::string& mesh, int m, bool weighted) {
    const Mesh shape = Mesh::parse(mesh);
    World world({.devices = shape.size(), .seed = 5});
    Net net;
    optim::Adam adam(net.parameters(), {.lr = 1e-2});
    auto step = compile(world.mesh(shape.axes),
                        [&](Tensor x, Tensor y, Tensor w) {
                          const CrossEntropyOptions options{.ignore_index = 3};
                          Tensor loss =
                              weighted ? cross_entropy(net.fc(x), y, w, options) : cross_entropy(net.fc(x), y, options);
                          adam.step(grad(loss, net.parameters()));
                          return loss;
                        },
                        {.microbatches = m});
    std::mt19937 random(7);
    std::vector<double> out;
    for (int s = 0; s < 4; ++s) {
      HostArray x(TensorType{DType::f64, {16, 6}}), y = labels(random, 16), w(TensorType{DType::f64, {16}});
      std::normal_distribution<double> normal;
      for (double& value : x.data<double>()) value = normal(random);
      for (double& value : w.data<double>()) value = std::abs(normal(random));
      for (int i = 4; i < 8; ++i) y.data<std::int32_t>()[static_cast<std::size_t>(i)] = 3;
      out.push_back(step(x, y, w).item<double>());
    }
    for (const Parameter& p : net.parameters()) {
      const HostArray value = world.read(p);
      out.insert(out.end(), value.data<double>().begin(), value.data<double>().end());
    }
    return out;
  };
  for (const bool weighted : {false, true}) {
    const auto whole_batch = train("", 1, weighted);
    for (const char* mesh : {"", "data=2", "data=2,model=2"})
      for (int m : {2, 4})
        EXPECT_LE(max_difference(whole_batch, train(mesh, m, weighted)), 1e-10) << mesh << " microbatches=" << m;
  }
}

}  // namespace
}  // namespace karez::tests
