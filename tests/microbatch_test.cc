// Training equivalence for micro-batches: a batch split in time trains as the whole batch does, and a program that
// cannot be split is rejected with its line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <string_view>

#include "karez/karez.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {

// ---- models, in f64

struct Mlp : nn::Module {
  explicit Mlp(double drop) : Module(DType::f64), drop{*this, "drop", drop} {}
  nn::Linear fc1{*this, "fc1", 6, 10}, fc2{*this, "fc2", 10, 10}, fc3{*this, "fc3", 10, 4};
  nn::Dropout drop;
  Tensor operator()(Tensor x) { return fc3(drop(tanh(fc2(drop(tanh(fc1(reshape(x, {x.shape()[0], 6})))))))); }
};

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

HostArray images(std::mt19937& random, std::int64_t batch) {
  HostArray x(TensorType{DType::f64, {batch, 1, 3, 2}});
  std::normal_distribution<double> normal;
  for (double& value : x.data<double>()) value = normal(random);
  return x;
}
HostArray labels(std::mt19937& random, std::int64_t batch) {
  HostArray y(TensorType{DType::i32, {batch}});
  for (std::int32_t& label : y.data<std::int32_t>()) label = static_cast<std::int32_t>(random() % 4);
  return y;
}

// Transfers are free and compute is expensive, so that small models are split as much as possible.
CostTable prefer_splitting() {
  CostTable costs;
  costs.link = {0, 0};
  costs.matmul_flops = costs.conv_flops = 1e6;
  return costs;
}

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
    EXPECT_GT(step.plan().transfers.size(), 0u) << run.mesh << ": the devices should share the work";
  }
  for (const auto& [name, parameter] : net.named_parameters()) {
    HostArray value = world.read(parameter);
    out.values.insert(out.values.end(), value.data<double>().begin(), value.data<double>().end());
  }
  return out;
}

double worst(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most, std::abs(a[i] - b[i]) / std::max(std::abs(a[i]), 1e-2));
  return most;
}

// With KAREZ_ALL=1 it tests every number of micro-batches on every mesh.
template <class Net> void same_on_all(Optimiser optimiser, double drop, int steps) {
  constexpr std::int64_t batch = 16;
  const Outcome one = train<Net>({""}, optimiser, drop, steps, batch);
  for (const char* mesh : {"", "data=2", "data=3", "data=2,model=2"})
    for (int m : {1, 2, 4, 8}) {
      if (m == 1 && mesh[0] == 0) continue;
      if ((m == 2 || m == 8) && std::string_view(mesh) != "data=3" && std::getenv("KAREZ_ALL") == nullptr) continue;
      const Outcome many = train<Net>({mesh, m}, optimiser, drop, steps, batch);
      EXPECT_LE(worst(one.losses, many.losses), 1e-10) << mesh << " microbatches=" << m;
      EXPECT_LE(worst(one.values, many.values), 1e-10) << mesh << " microbatches=" << m;
    }
}

TEST(MicroBatches, AnMlpTrainsTheSameWithAnyNumberOnEveryMesh) {
  same_on_all<Mlp>(Optimiser::sgd, 0, 50);
  same_on_all<Mlp>(Optimiser::adam, 0, 20);
}
TEST(MicroBatches, DropoutDropsTheSameElements) { same_on_all<Mlp>(Optimiser::momentum, 0.4, 20); }
TEST(MicroBatches, ACnnTrainsTheSame) { same_on_all<Cnn>(Optimiser::momentum, 0.3, 20); }
TEST(MicroBatches, ATransformerTrainsTheSame) { same_on_all<Attention>(Optimiser::adam, 0.2, 10); }

TEST(MicroBatches, EachNumberIsBitEqualToItsRerun) {
  for (const char* mesh : {"", "data=3", "data=2,model=2"}) {
    const Outcome one = train<Mlp>({mesh, 4}, Optimiser::adam, 0.3, 5, 16),
                  again = train<Mlp>({mesh, 4}, Optimiser::adam, 0.3, 5, 16);
    EXPECT_EQ(one.losses, again.losses) << mesh;
    EXPECT_EQ(one.values, again.values) << mesh;
  }
}

TEST(MicroBatches, LayersSplitByRuleTrainTheSame) {
  const std::vector<LayoutRule> rules = {
      {"fc1.weight", P("model", nullptr)}, {"fc1.bias", P("model")}, {"fc2.weight", P(nullptr, "model")}};
  const Outcome one = train<Mlp>({""}, Optimiser::adam, 0.2, 10, 24);
  for (const char* mesh : {"model=2", "data=2,model=2", "model=3"})
    for (int m : {3, 8}) {
      const Outcome many = train<Mlp>({mesh, m, rules}, Optimiser::adam, 0.2, 10, 24);
      EXPECT_LE(worst(one.losses, many.losses), 1e-10) << mesh << " " << m;
      EXPECT_LE(worst(one.values, many.values), 1e-10) << mesh << " " << m;
    }
}

TEST(MicroBatches, LayersOnSeveralPlacementsTrainTheSame) {
  const std::vector<PlacementRule> stages = {{"fc1", 0}, {"fc2", 1}, {"fc3", 1}};
  const Outcome one = train<Mlp>({""}, Optimiser::adam, 0.2, 10, 16);
  for (const char* mesh : {"stage=2", "stage=2,data=2"})
    for (int m : {1, 4, 8}) {
      const Outcome many = train<Mlp>({mesh, m, {}, stages}, Optimiser::adam, 0.2, 10, 16);
      EXPECT_LE(worst(one.losses, many.losses), 1e-10) << mesh << " " << m;
      EXPECT_LE(worst(one.values, many.values), 1e-10) << mesh << " " << m;
    }
}

// ---- inputs and outputs

struct Regressor : nn::Module {
  Regressor() : Module(DType::f64) {}
  nn::Linear fc{*this, "fc", 3, 2, false};
};

// All launches begin before a result is read, and each has its own batch.
TEST(MicroBatches, SourcesAreReadByPartsWithSeveralLaunchesInFlight) {
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
  EXPECT_LE(worst(losses[0], losses[1]), 1e-10);
}

// A result that is split over the mesh is the batch of the next call.
TEST(MicroBatches, AnArrayOnTheMeshIsSplitThere) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("data=2");
  HostArray x(TensorType{DType::f64, {8, 3}});
  for (std::size_t i = 0; i < 24; ++i) x.data<double>()[i] = std::cos(static_cast<double>(i));
  auto spread = compile(mesh, [](Tensor v) { return with_layout(v * 2.0, P("data")); });
  auto use = [](Tensor v) { return std::pair(tanh(v), sum(v * v)); };
  auto whole = compile(mesh, use), cut = compile(mesh, use, {.microbatches = 4});
  Array made = spread(x).value(0);
  Future a = whole(made), b = cut(made);
  const HostArray ya = a.value(0).read(), yb = b.value(0).read();
  for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(ya.data<double>()[i], yb.data<double>()[i]);
  EXPECT_NEAR(a.item(1), b.item(1), 1e-12);
}

TEST(MicroBatches, PlannedTransfersEqualTheCountedOnes) {
  for (const char* text : {"data=2", "data=3", "data=2,model=2"}) {
    const Mesh shape = Mesh::parse(text);
    World world({.devices = shape.size(), .costs = prefer_splitting()});
    Mlp net(0.2);
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
TEST(MicroBatches, ThePeakMemoryOfADeepNetDecreasesWithTheirNumber) {
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

// ---- errors

template <class Body> std::string refusal(int m, Body body) {
  World world;
  auto step = compile(world.mesh(), body, {.microbatches = m});
  try {
    step.compile({{DType::f32, {64, 4}}});
  } catch (const Error& error) { return error.what(); }
  return "";
}

TEST(MicroBatches, AProgramThatCannotBeAccumulatedIsRejectedWithItsLine) {
  using ::testing::AllOf, ::testing::HasSubstr;
  EXPECT_EQ(refusal(3, [](Tensor x) { return sum(x); }),
            "microbatches=3 does not divide the batch of 64; nearest: 2, 4");
  EXPECT_THAT(refusal(4, [](Tensor x) { return max(x, {0}); }),
              AllOf(HasSubstr("reduce_max at "), HasSubstr("microbatch_test.cc:"),
                    HasSubstr("takes the max over the batch"), HasSubstr("'arg0'")));
  EXPECT_THAT(refusal(4,
                      [](Tensor x) {
                        Tensor y = matmul(x, full({4, 4}, 0.5));
                        return (y - mean(y, {0}, true)) * 2.0;
                      }),
              AllOf(HasSubstr("sub at "), HasSubstr("microbatch_test.cc:"),
                    HasSubstr("which depends on reduce_sum at "), HasSubstr("statistics of a batch")));
  EXPECT_THAT(refusal(4,
                      [](Tensor x) {
                        return concat({x, x}, 0);
                      }),
              AllOf(HasSubstr("concat at "), HasSubstr("needs more of the batch")));
  EXPECT_THAT(refusal(2, [](Tensor) { return full({3}, 1.0); }), HasSubstr("has a batch"));
  World world;
  EXPECT_THROW(compile(world.mesh(), [](Tensor x) { return x; }, {.microbatches = 0}), Error);
}

// The mean is over the labels of the whole batch that are not ignored; some parts have few of them or none.
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
    const auto one = train("", 1, weighted);
    for (const char* mesh : {"", "data=2", "data=2,model=2"})
      for (int m : {2, 4}) EXPECT_LE(worst(one, train(mesh, m, weighted)), 1e-10) << mesh << " microbatches=" << m;
  }
}

// The check for NaN names the op that produced it in a micro-batch.
TEST(MicroBatches, TheOpThatProducedANanIsReported) {
  World world({.check_nan = true});
  auto f = compile(world.mesh(), [](Tensor x) { return sum(log(x)); }, {.microbatches = 4});
  HostArray x = HostArray::of<float>({8}, {1, 2, 3, 4, 5, -6, 7, 8});
  try {
    f(x).wait();
    FAIL();
  } catch (const Error& error) { EXPECT_THAT(error.what(), ::testing::HasSubstr("log at ")); }
}

// An invalid index is reported with its position in the whole batch.
TEST(MicroBatches, AnInvalidIndexIsReportedWithItsPositionInTheBatch) {
  auto message = [](int m) -> std::string {
    World world;
    auto f = compile(world.mesh(), [](Tensor i) { return sum(one_hot(i, 3), {0}); }, {.microbatches = m});
    HostArray x = HostArray::of<std::int32_t>({8}, {0, 1, 2, 0, 1, 7, 0, 1});
    try {
      f(x).wait();
    } catch (const Error& error) { return error.what(); }
    return "";
  };
  EXPECT_THAT(message(4), ::testing::HasSubstr("[5]"));
}

}  // namespace
}  // namespace karez::tests
