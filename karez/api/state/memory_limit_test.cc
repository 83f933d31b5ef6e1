// Tests of memory limits on several ranks: either all ranks choose the same plan, or all of them reject it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>

#include "karez/api/ranks/test_ranks.h"
#include "karez/api/testing/test_texts.h"
#include "karez/karez.h"

namespace karez {
namespace {

struct Net : nn::Module {
  Net() : Module(DType::f64) {}
  nn::Linear fc1{*this, "fc1", 32, 64}, fc2{*this, "fc2", 64, 16};
  Tensor operator()(Tensor x) { return fc2(tanh(fc1(x))); }
};

struct Trained {
  std::vector<double> losses;
  std::int64_t planned = 0, measured = 0;
};

Trained train(WorldOptions options, std::int64_t memory) {
  options.memory = memory;
  options.seed = 7;
  options.team = 1;
  options.costs = CostTable();
  options.costs->link = {.alpha = 1e-4, .beta = 1e-12};
  World world(std::move(options));
  Net net;
  optim::Adam adam(net.parameters(), {.lr = 1e-2});
  auto step = compile(world.mesh("data=4"), [&](Tensor x) {
    x = with_layout(x, P("data", nullptr));
    Tensor y = net(x), loss = mean(y * y);
    adam.step(grad(loss, net.parameters()));
    return loss;
  });
  HostArray x(TensorType{DType::f64, {16, 32}});
  for (std::size_t i = 0; i < x.data<double>().size(); ++i)
    x.data<double>()[i] = static_cast<double>(i * 37 % 101) / 50.0 - 1;
  Trained out;
  for (int s = 0; s < 3; ++s) out.losses.push_back(step(x).item());
  out.planned = step.peak_bytes();
  for (const auto& [device, bytes] : world.counters().peak_bytes) out.measured = std::max(out.measured, bytes);
  return out;
}

TEST(MemoryLimits, RanksChooseTheSamePlanAndTrainAsWithoutALimit) {
  const Trained unlimited = train({.devices = 4}, 0);
  const std::int64_t limit = unlimited.planned * 7 / 10;
  const Trained single_process = train({.devices = 4}, limit);
  EXPECT_LE(single_process.measured, limit);
  std::mutex mutex;
  std::vector<Trained> rank_results;
  on_ranks(2, [&](const Ranks& ranks) {
    Trained result = train({.devices = 2, .ranks = ranks}, limit);
    std::lock_guard lock(mutex);
    rank_results.push_back(std::move(result));
  });
  ASSERT_EQ(rank_results.size(), 2u);
  for (const Trained& rank_result : rank_results) {
    EXPECT_LE(rank_result.measured, limit);
    for (std::size_t s = 0; s < unlimited.losses.size(); ++s)
      EXPECT_NEAR(rank_result.losses[s], unlimited.losses[s], 1e-10 * unlimited.losses[s]);
  }
}

TEST(MemoryLimits, APlanAboveTheLimitIsRejectedOnEveryRank) {
  std::mutex mutex;
  std::vector<std::string> errors;
  on_ranks(2, [&](const Ranks& ranks) {
    const std::string text = error_of([&] { train({.devices = 2, .ranks = ranks}, 5000); });
    std::lock_guard lock(mutex);
    errors.push_back(text);
  });
  ASSERT_EQ(errors.size(), 2u);
  for (const std::string& text : errors)
    EXPECT_THAT(text, ::testing::HasSubstr("but the limit is 4.88 KiB (5000 bytes)"));
}

// The plan that writes first values is unloaded before the plan of the function is loaded.
TEST(MemoryLimits, WritingFirstValuesStaysWithinTheLimit) {
  const Trained unlimited = train({.devices = 4}, 0);
  const Trained limited = train({.devices = 4}, unlimited.planned);
  EXPECT_LE(limited.measured, unlimited.planned);
  EXPECT_EQ(limited.losses, unlimited.losses);
}

// A launch that writes the first values of all parameters needs their memory twice, which exceeds the limit. Launches
// that write fewer parameters need less.
TEST(MemoryLimits, FirstValuesThatDoNotFitTogetherAreWrittenInSeveralLaunches) {
  struct Deep : nn::Module {
    std::vector<std::unique_ptr<nn::Linear>> layers;
    Deep() {
      for (int i = 0; i < 8; ++i) layers.push_back(std::make_unique<nn::Linear>(*this, cat("fc", i), 64, 64));
    }
    Tensor operator()(Tensor x) {
      for (auto& layer : layers) x = (*layer)(x);
      return x;
    }
  };
  std::vector<std::vector<float>> results;
  constexpr std::int64_t layer = (64 + 1) * 64 * 4;
  std::int64_t limit = 0;
  for (const bool limited : {false, true}) {
    World world({.seed = 3, .memory = limited ? limit : 0});
    Deep net;
    auto model = compile(world.mesh(), [&](Tensor x) { return net(x); });
    results.push_back(list<float>(model(HostArray(TensorType{DType::f32, {1, 64}})).value().read()));
    limit = model.peak_bytes() + 3 * layer;
    std::int64_t measured = 0;
    for (const auto& [device, bytes] : world.counters().peak_bytes) measured = std::max(measured, bytes);
    EXPECT_EQ(measured <= limit, limited) << measured << " bytes of " << limit;
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace karez
