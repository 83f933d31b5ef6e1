// Tests that training with FunctionOptions::remat gives the same bits as training without it, and needs less memory, as
// the plan predicts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "bench/models.h"
#include "karez/kernels/kernel.h"
#include "karez/runtime/session.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {

constexpr std::int64_t width = 24, hidden = 96, rows = 256, blocks = 6;

struct Block : nn::Module {
  Block(Module& parent, const std::string& name) : Module(parent, name) {}
  nn::Linear up{*this, "up", width, hidden}, down{*this, "down", hidden, width};
  nn::Dropout drop{*this, "drop", 0.25};
  Tensor operator()(Tensor x) { return x + drop(down(tanh(up(x)))); }
};

struct Deep : nn::Module {
  std::vector<std::unique_ptr<Block>> list;
  nn::Linear head{*this, "head", width, 5};
  Deep() {
    for (int i = 0; i < blocks; ++i) list.push_back(std::make_unique<Block>(*this, cat("block", i)));
  }
  Tensor operator()(Tensor x) {
    for (auto& block : list) x = (*block)(x);
    return head(x);
  }
};

struct TrainingResult {
  std::vector<std::vector<float>> losses, weights;
  // Bytes of the device that needs the most memory: planned, and allocated when the plan is loaded.
  std::int64_t planned = 0, measured = 0;
};

std::vector<float> floats(const HostArray& array) {
  auto data = array.data<float>();
  return {data.begin(), data.end()};
}

template <class Net, class Input>
TrainingResult train(Net& net, const std::string& mesh, bool adam, int steps, Input&& input, FunctionOptions options) {
  Mesh shape = Mesh::parse(mesh);
  World world({.devices = shape.size(), .workers = 1, .seed = 3});
  optim::Adam adam_optimiser(net.parameters(), {.lr = 1e-2});
  optim::SGD sgd_optimiser(net.parameters(), {.lr = 1e-2, .momentum = 0.9});
  auto step = compile(
      world.mesh(shape.axes),
      [&](Tensor x, Tensor y) {
        Tensor loss = cross_entropy(net(x), y);
        auto gradients = grad(loss, net.parameters());
        if (adam) adam_optimiser.step(gradients);
        else sgd_optimiser.step(gradients);
        return loss;
      },
      std::move(options));
  TrainingResult out;
  for (int s = 0; s < steps; ++s) {
    auto [x, y] = input(s);
    out.losses.push_back(floats(step(x, y).value().read()));
  }
  for (const Parameter& parameter : net.parameters()) out.weights.push_back(floats(world.read(parameter)));
  out.planned = step.peak_bytes();
  const KernelTable table(cpu_kernels());
  Session session({}, table);
  session.load(step.plan());
  for (const auto& [device, bytes] : session.counters().peak_bytes) out.measured = std::max(out.measured, bytes);
  return out;
}

TrainingResult train_deep(const std::string& mesh, bool adam, int steps, FunctionOptions options) {
  Deep net;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  return train(
      net, mesh, adam, steps,
      [&](int) {
        HostArray x(TensorType{DType::f32, {rows, width}}), y(TensorType{DType::i32, {rows}});
        for (float& value : x.data<float>()) value = normal(random);
        for (std::int32_t& label : y.data<std::int32_t>()) label = static_cast<std::int32_t>(random() % 5);
        return std::pair(x, y);
      },
      std::move(options));
}

bool same_bits(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].size() != b[i].size() || std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0)
      return false;
  return true;
}

TEST(Recompute, RecomputationGivesTheSameBitsInLessMemory) {
  for (const char* mesh : {"", "data=2", "data=2,model=2"}) {
    for (bool adam : {true, false}) {
      SCOPED_TRACE(cat(mesh, adam ? " adam" : " sgd"));
      const TrainingResult stored = train_deep(mesh, adam, 20, {}),
                           recomputed = train_deep(mesh, adam, 20, {.remat = {"block*"}});
      EXPECT_TRUE(same_bits(stored.losses, recomputed.losses));
      EXPECT_TRUE(same_bits(stored.weights, recomputed.weights));
      EXPECT_EQ(stored.measured, stored.planned);
      EXPECT_EQ(recomputed.measured, recomputed.planned);
      EXPECT_LT(recomputed.planned, stored.planned);
      const int devices = Mesh::parse(mesh).size();
      // The result of tanh is the largest value that the gradients of a block read; it is kept for only one block.
      const std::int64_t tanh_bytes = rows / devices * hidden * 4;
      if (devices <= 2) { EXPECT_LE(recomputed.planned, stored.planned - 9 * (blocks - 1) * tanh_bytes / 10); }
    }
  }
}

TEST(Recompute, RecomputedBlocksOfATransformerNeedHalfTheMemory) {
  constexpr bench::GptShape shape = {.layers = 4, .width = 32, .heads = 4, .length = 32, .vocabulary = 11};
  for (const char* mesh : {"", "data=2"}) {
    auto run = [&](FunctionOptions options) {
      bench::Gpt net(shape);
      std::mt19937 random(9);
      return train(
          net, mesh, true, 5,
          [&](int) {
            HostArray x(TensorType{DType::i32, {8, shape.length}}), y(TensorType{DType::i32, {8 * shape.length}});
            for (auto* array : {&x, &y})
              for (std::int32_t& value : array->data<std::int32_t>()) value = static_cast<std::int32_t>(random() % 11);
            return std::pair(x, y);
          },
          std::move(options));
    };
    SCOPED_TRACE(mesh);
    const TrainingResult stored = run({}), recomputed = run({.remat = {"block*"}});
    EXPECT_TRUE(same_bits(stored.losses, recomputed.losses));
    EXPECT_TRUE(same_bits(stored.weights, recomputed.weights));
    EXPECT_LT(recomputed.planned, 51 * stored.planned / 100);
  }
}

TEST(Recompute, RecomputationWorksWithMicroBatchesAndPlacements) {
  auto train_with = [](FunctionOptions options, bool recomputed) {
    if (recomputed) options.remat = {"block*"};
    return train_deep("data=2", true, 5, std::move(options));
  };
  const TrainingResult stored = train_with({.microbatches = 4}, false),
                       recomputed = train_with({.microbatches = 4}, true);
  EXPECT_TRUE(same_bits(stored.losses, recomputed.losses));
  EXPECT_TRUE(same_bits(stored.weights, recomputed.weights));
  EXPECT_LT(recomputed.planned, stored.planned);
  auto staged = [](int microbatches, std::vector<std::string> remat) {
    FunctionOptions options{.placements = {{"head", 1}, {"block{3,4,5}", 1}, {"block{0,1,2}", 0}},
                            .remat = std::move(remat),
                            .microbatches = microbatches};
    return train_deep("stage=2", false, 5, std::move(options));
  };
  for (int microbatches : {1, 4}) {
    const TrainingResult staged_stored = staged(microbatches, {}), staged_recomputed = staged(microbatches, {"block*"});
    EXPECT_TRUE(same_bits(staged_stored.losses, staged_recomputed.losses)) << microbatches;
    EXPECT_TRUE(same_bits(staged_stored.weights, staged_recomputed.weights)) << microbatches;
  }
}

TEST(Recompute, WithoutThePassTheGlobsHaveNoEffect) {
  const TrainingResult stored = train_deep("", true, 1, {}),
                       without_pass = train_deep("", true, 1, {.remat = {"block*"}, .off = {"recompute"}});
  EXPECT_EQ(without_pass.planned, stored.planned);
}

}  // namespace
}  // namespace karez::tests
