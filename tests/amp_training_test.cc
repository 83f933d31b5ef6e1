// Tests of mixed precision in complete programs. A transformer and a convolutional net train close to f32 on meshes, in
// stages and micro-batches, with recomputed blocks and on several ranks, and a skipped step changes no state.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "bench/models.h"
#include "karez/api/ranks/test_ranks.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {

constexpr bench::GptShape small = {.layers = 2, .width = 16, .heads = 4, .length = 6, .vocabulary = 11};

struct SmallCnn : nn::Module {
  nn::Conv2d conv1{*this, "conv1", 1, 6, 3}, conv2{*this, "conv2", 6, 8, 3};
  nn::BatchNorm norm{*this, "norm", 6};
  nn::Linear fc1{*this, "fc1", 8 * 2 * 2, 24}, fc2{*this, "fc2", 24, 11};
  Tensor operator()(Tensor x) {
    x = max_pool(relu(norm(conv1(x))), 2);
    x = max_pool(relu(conv2(x)), 2);
    return fc2(relu(fc1(flatten(x))));
  }
};

struct Setting {
  std::string mesh = "";
  std::string amp = "";
  std::vector<LayoutRule> rules = {};
  int microbatches = 1;
  std::vector<PlacementRule> placements = {};
  std::vector<std::string> remat = {};
  std::uint64_t seed = 3;
};

struct Outcome {
  std::vector<double> losses;
  std::vector<std::byte> state, skipped;  // before and after a step whose gradients are not finite
  double scale = 0;                       // after that step
};

// Returns the parameters and the optimiser's state, without running statistics, which a skipped step updates as in
// PyTorch.
std::vector<std::byte> state_of(World& world, const std::vector<Parameter>& parameters) {
  std::vector<std::string> names{"adam.step"};
  for (const Parameter& parameter : parameters)
    for (const char* prefix : {"", "adam.m.", "adam.v."}) names.push_back(prefix + parameter.name());
  std::vector<std::byte> out;
  for (const std::string& name : names) {
    const HostArray value = world.read(name);
    out.insert(out.end(), value.bytes(), value.bytes() + value.type().bytes());
  }
  return out;
}

HostArray random_array(std::mt19937& random, Shape shape, int below) {
  HostArray out(TensorType{below > 0 ? DType::i32 : DType::f32, std::move(shape)});
  if (below > 0)
    for (std::int32_t& value : out.data<std::int32_t>())
      value = static_cast<std::int32_t>(random() % static_cast<unsigned>(below));
  else
    for (float& value : out.data<float>()) value = static_cast<float>(random() % 1000) / 250 - 2;
  return out;
}

template <class Net>
Outcome train(Net& net, const Setting& run, const HostArray& x, const HostArray& y, int count,
              std::optional<Ranks> ranks) {
  const Mesh shape = Mesh::parse(run.mesh);
  World world(
      {.devices = ranks ? shape.size() / ranks->ranks : shape.size(), .team = 1, .seed = run.seed, .ranks = ranks});
  optim::Adam adam(net.parameters(), {.lr = 1e-2});
  auto step = compile(world.mesh(shape.axes),
                      [&](Tensor in, Tensor labels, Tensor factor) {
                        Tensor loss = cross_entropy(net(in), labels) * factor;
                        adam.step(grad(loss, net.parameters()));
                        return loss;
                      },
                      {.rules = run.rules,
                       .placements = run.placements,
                       .remat = run.remat,
                       .amp = run.amp,
                       .microbatches = run.microbatches});
  Outcome out;
  for (int s = 0; s < count; ++s) out.losses.push_back(step(x, y, 1.0f).item());
  if (run.amp != "f16") return out;
  out.state = state_of(world, net.parameters());
  step(x, y, std::numeric_limits<float>::infinity()).wait();
  out.skipped = state_of(world, net.parameters());
  out.scale = static_cast<double>(world.read("amp.scale").data<float>()[0]);
  return out;
}

Outcome transformer(const Setting& run, int count = 8, std::optional<Ranks> ranks = {}) {
  std::mt19937 random(9);
  const HostArray x = random_array(random, {6, small.length}, 11), y = random_array(random, {6 * small.length}, 11);
  bench::Gpt net(small);
  return train(net, run, x, y, count, std::move(ranks));
}

Outcome convolution(const Setting& run, int count = 8, std::optional<Ranks> ranks = {}) {
  std::mt19937 random(4);
  const HostArray x = random_array(random, {12, 1, 14, 14}, 0), y = random_array(random, {12}, 11);
  SmallCnn net;
  return train(net, run, x, y, count, std::move(ranks));
}

using Program = Outcome (*)(const Setting&, int, std::optional<Ranks>);
constexpr int steps = 8;
constexpr std::pair<const char*, Program> programs[] = {{"transformer", transformer}, {"convolution", convolution}};

double max_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0 : HUGE_VAL;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double difference = std::abs(a[i] - b[i]) / a[0];
    largest = std::isnan(difference) ? HUGE_VAL : std::max(largest, difference);
  }
  return largest;
}

void expect_skipped(const Outcome& out, const std::string& label) {
  EXPECT_FALSE(out.state.empty()) << label;
  EXPECT_EQ(out.state, out.skipped) << label;
  EXPECT_EQ(out.scale, 32768) << label;
}

double f32_tolerance(const std::string& amp) { return amp == "bf16" ? 5e-2 : 1e-2; }
// Sums in a different order sometimes round differently.
double mesh_tolerance(const std::string& amp) { return amp == "bf16" ? 3e-2 : 5e-3; }

// The median of the differences over five seeds must be small. If rounding changes the sign of a gradient, Adam makes a
// full step in the other direction, and after 40 steps such a run differs widely.
TEST(AmpTraining, ATransformerAndAConvolutionTrainCloseToF32) {
  for (const auto& [name, program] : programs)
    for (const char* amp : {"bf16", "f16"}) {
      std::vector<double> differences;
      for (std::uint64_t seed = 3; seed < 8; ++seed) {
        const Outcome f32 = program({.seed = seed}, 40, {}),
                      low_precision = program({.amp = amp, .seed = seed}, 40, {});
        EXPECT_LT(f32.losses.back(), f32.losses.front() / 2) << name;
        EXPECT_LT(low_precision.losses.back(), low_precision.losses.front() / 2) << name << " " << amp;
        EXPECT_NE(low_precision.losses, f32.losses) << name << " " << amp;
        differences.push_back(max_difference(f32.losses, low_precision.losses));
        if (amp == std::string("f16")) expect_skipped(low_precision, name);
      }
      std::sort(differences.begin(), differences.end());
      EXPECT_LE(differences[2], f32_tolerance(amp)) << name << " " << amp;
    }
}

TEST(AmpTraining, EveryMeshGivesTheSameLossesWithinRounding) {
  const std::vector<LayoutRule> by_rule = {{"block*.{query,key,value,up}.weight", P("model")},
                                           {"block*.{out,down}.weight", P(nullptr, "model")}};
  for (const auto& [name, program] : programs)
    for (const char* amp : {"bf16", "f16"}) {
      const Outcome single_device = program({.amp = amp}, steps, {});
      const std::vector<Setting> of_transformer = {{"data=2,model=2", amp, by_rule}, {"", amp, {}, 3}},
                                 of_convolution = {{"data=3", amp}, {"data=2,model=2", amp}};
      const std::vector<Setting>& runs = program == transformer ? of_transformer : of_convolution;
      for (const Setting& run : runs) {
        const Outcome distributed = program(run, steps, {});
        EXPECT_LE(max_difference(single_device.losses, distributed.losses), mesh_tolerance(amp))
            << name << " " << amp << " " << run.mesh << " " << run.microbatches;
        if (amp == std::string("f16")) expect_skipped(distributed, cat(name, " ", run.mesh));
      }
    }
}

TEST(AmpTraining, StagesAndMicroBatchesGiveTheSameLosses) {
  const std::vector<PlacementRule> blocks = {{"block0", 0}, {"block1", 1}}, layers = {{"{conv*,norm}", 0}, {"fc*", 1}};
  for (const char* amp : {"bf16", "f16"}) {
    for (const auto& [name, program] : programs) {
      const std::vector<PlacementRule>& stages = program == transformer ? blocks : layers;
      const Outcome single_device = program({.amp = amp}, steps, {}),
                    staged = program({.mesh = "stage=2", .amp = amp, .placements = stages}, steps, {});
      EXPECT_LE(max_difference(single_device.losses, staged.losses), mesh_tolerance(amp)) << name << " " << amp;
      if (amp == std::string("f16")) expect_skipped(staged, name);
    }
    const Outcome single_device = transformer({.amp = amp}),
                  micro_batched =
                      transformer({.mesh = "stage=2,data=2", .amp = amp, .microbatches = 3, .placements = blocks});
    EXPECT_LE(max_difference(single_device.losses, micro_batched.losses), mesh_tolerance(amp))
        << amp << " in micro-batches";
    if (amp == std::string("f16")) expect_skipped(micro_batched, "in micro-batches");
  }
}

TEST(AmpTraining, RecomputedBlocksChangeNoBit) {
  for (const char* amp : {"bf16", "f16"})
    for (const char* mesh : {"", "data=2"}) {
      const Outcome stored = transformer({.mesh = mesh, .amp = amp}),
                    recomputed = transformer({.mesh = mesh, .amp = amp, .remat = {"block*"}});
      EXPECT_EQ(stored.losses, recomputed.losses) << amp << " " << mesh;
      EXPECT_EQ(stored.state, recomputed.state) << amp << " " << mesh;
      if (amp == std::string("f16")) expect_skipped(recomputed, mesh);
    }
}

TEST(AmpTraining, SeveralRanksGiveTheBitsOfOneProcess) {
  for (const auto& [name, program] : programs)
    for (const char* amp : {"bf16", "f16"}) {
      const Setting run{.mesh = "data=2", .amp = amp};
      const Outcome single_device = program(run, steps, {});
      std::vector<Outcome> outcomes(2);
      on_ranks(2, [&, run_program = program](const Ranks& own_ranks) {
        outcomes[static_cast<std::size_t>(own_ranks.rank)] = run_program(run, steps, own_ranks);
      });
      for (const Outcome& rank_outcome : outcomes) {
        EXPECT_EQ(rank_outcome.losses, single_device.losses) << name << " " << amp;
        EXPECT_EQ(rank_outcome.state, single_device.state) << name << " " << amp;
        if (amp == std::string("f16")) expect_skipped(rank_outcome, name);
      }
    }
}

}  // namespace
}  // namespace karez::tests
