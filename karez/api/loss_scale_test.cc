// Tests of the loss scale for f16: an overflow skips the update and lowers the scale, which is part of checkpoints.
#include "karez/api/loss_scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "karez/api/compile.h"
#include "karez/api/namespace.h"
#include "karez/api/nn.h"
#include "karez/api/optim.h"
#include "karez/api/testing/test_classifier.h"
#include "karez/api/testing/test_texts.h"

namespace karez {
namespace {
using ::testing::ElementsAre;

// A training step whose loss is multiplied by an argument, so that it can overflow.
struct ScaledTraining {
  World world;
  Classifier net;
  optim::Adam adam{net.parameters(), {.lr = 1e-2}};
  Function step;
  explicit ScaledTraining(std::string mesh = "", int devices = 1, std::int64_t interval = 2000)
      : world({.devices = devices}),
        step(compile(world.mesh(mesh),
                     [this](Tensor x, Tensor y, Tensor factor) {
                       Tensor loss = cross_entropy(net(x), y) * factor;
                       adam.step(grad(loss, net.parameters()));
                       return loss;
                     },
                     {.amp = "f16", .loss_scale = {.interval = interval}})) {}
  void run(float factor, int i) { step(images(12, i), labels(12, i), factor).wait(); }
  double scale() { return static_cast<double>(world.read("amp.scale").data<float>()[0]); }
  std::vector<std::byte> state() {
    std::vector<std::byte> out;
    for (const char* prefix : {"", "adam.m.", "adam.v."})
      for (const Parameter& parameter : net.parameters()) {
        const HostArray value = world.read(std::string(prefix) + parameter.name());
        out.insert(out.end(), value.bytes(), value.bytes() + value.type().bytes());
      }
    const HostArray count = world.read("adam.step");
    out.insert(out.end(), count.bytes(), count.bytes() + count.type().bytes());
    return out;
  }
};

TEST(LossScale, AnOverflowSkipsTheUpdateOfAllStateAndHalvesTheScale) {
  for (const auto& [mesh, devices] : {std::pair("", 1), std::pair("data=2", 2), std::pair("data=2,model=2", 4)}) {
    ScaledTraining s(mesh, devices);
    s.run(1, 0);
    EXPECT_EQ(s.scale(), 65536) << mesh;
    const auto old_state = s.state();
    s.run(1e30f, 1);
    EXPECT_EQ(s.scale(), 32768) << mesh;
    EXPECT_EQ(s.state(), old_state) << mesh;
    s.run(std::numeric_limits<float>::quiet_NaN(), 1);
    EXPECT_EQ(s.scale(), 16384) << mesh;
    EXPECT_EQ(s.state(), old_state) << mesh;
    s.run(1, 2);
    EXPECT_EQ(s.scale(), 16384) << mesh;
    EXPECT_NE(s.state(), old_state) << mesh;
    EXPECT_EQ(s.world.read("adam.step").data<std::int64_t>()[0], 2) << mesh;
  }
}

TEST(LossScale, TheScaleGrowsAfterGoodStepsAndAnOverflowRestartsTheCount) {
  ScaledTraining s("", 1, 3);
  for (int i = 0; i < 2; ++i) s.run(1, i);
  EXPECT_EQ(s.scale(), 65536);
  s.run(1, 2);
  EXPECT_EQ(s.scale(), 131072);
  for (int i = 0; i < 2; ++i) s.run(1, i);
  s.run(1e30f, 0);
  EXPECT_EQ(s.scale(), 65536);
  for (int i = 0; i < 2; ++i) s.run(1, i);
  EXPECT_EQ(s.scale(), 65536);
  s.run(1, 2);
  EXPECT_EQ(s.scale(), 131072);
}

// The update kernel has an operand `apply` that says whether to apply the update. One call can therefore update all
// state in place, without a copy.
TEST(LossScale, OneCallThatMaySkipTheUpdateUpdatesAllStateInPlace) {
  ScaledTraining s;
  s.run(1, 0);
  const plan::Plan& plan = s.step.plan();
  int updates = 0;
  for (const plan::Actor& actor : plan.actors)
    for (const plan::Call& call : actor.calls) {
      if (call.kernel != "hwy.adam_if") {
        for (const plan::Operand& out : call.out)
          if (out.block.valid() && out.view.count() > 1) {
            EXPECT_NE(plan.blocks[out.block].kind, plan::BlockKind::variable) << call.kernel;
          }
        continue;
      }
      ++updates;
      ASSERT_EQ(call.out.size(), 3 * s.net.parameters().size());
      for (std::size_t i = 0; i < call.out.size(); ++i) {
        const plan::Operand& operand = call.in[i / 3 * 4 + i % 3];
        EXPECT_EQ(call.out[i].block, operand.reg.valid() ? plan.registers[operand.reg].block : operand.block) << i;
        EXPECT_EQ(call.out[i].view, operand.view) << i;
      }
    }
  EXPECT_EQ(updates, 1);
}

// Optimisers that are composed of several ops select either the old or the new state when they write it.
TEST(LossScale, ASkippedUpdateKeepsAllStateOfComposedOptimisers) {
  for (const int choice : {0, 1, 2, 3}) {
    World world({.devices = 2});
    Classifier net;
    optim::RMSprop rms(net.parameters(), {.momentum = 0.9, .centered = true});
    optim::Adagrad adagrad(net.parameters(), {});
    optim::Lion lion(net.parameters(), {});
    optim::SGD sgd(net.parameters(), {.momentum = 0.9, .weight_decay = 0.1});
    auto step = compile(world.mesh("data=2"),
                        [&](Tensor x, Tensor y, Tensor factor) {
                          Tensor loss = cross_entropy(net(x), y) * factor;
                          const auto grads = grad(loss, net.parameters());
                          choice == 0   ? rms.step(grads)
                          : choice == 1 ? adagrad.step(grads)
                          : choice == 2 ? lion.step(grads)
                                        : sgd.step(grads);
                          return loss;
                        },
                        {.amp = "f16"});
    const auto state = [&] {
      std::vector<std::byte> out;
      for (const std::string& name : world.variables()) {
        if (name.starts_with("amp.")) continue;
        const HostArray value = world.read(name);
        out.insert(out.end(), value.bytes(), value.bytes() + value.type().bytes());
      }
      return out;
    };
    step(images(12, 0), labels(12, 0), 1.0f).wait();
    const auto old_state = state();
    step(images(12, 1), labels(12, 1), 1e30f).wait();
    EXPECT_EQ(state(), old_state) << choice;
    step(images(12, 1), labels(12, 1), 1.0f).wait();
    EXPECT_NE(state(), old_state) << choice;
  }
}

TEST(LossScale, EachMeshHasASeparateScale) {
  World world({.devices = 3});
  Classifier first, second;
  optim::Adam first_adam(first.parameters(), {.lr = 1e-2}),
      second_adam(second.parameters(), {.lr = 1e-2, .name = "other"});
  const auto step_of = [&](const DeviceMesh& mesh, Classifier& net, optim::Adam& adam) {
    return compile(mesh,
                   [&](Tensor x, Tensor y, Tensor factor) {
                     Tensor loss = cross_entropy(net(x), y) * factor;
                     adam.step(grad(loss, net.parameters()));
                     return loss;
                   },
                   {.amp = "f16"});
  };
  auto first_step = step_of(world.mesh("data=2"), first, first_adam),
       second_step = step_of(world.mesh("", {.first = 2}), second, second_adam);
  first_step(images(12, 0), labels(12, 0), 1.0f).wait();
  second_step(images(12, 0), labels(12, 0), 1e30f).wait();
  EXPECT_EQ(world.read("amp.scale").data<float>()[0], 65536);
  EXPECT_EQ(world.read("amp.scale.2").data<float>()[0], 32768);
  EXPECT_EQ(world.read("amp.good").data<std::int64_t>()[0], 1);
  EXPECT_EQ(world.read("amp.good.2").data<std::int64_t>()[0], 0);
  auto same_mesh_step = step_of(world.mesh("data=2"), first, first_adam);  // uses the scale of this mesh
  same_mesh_step(images(12, 0), labels(12, 0), 1e30f).wait();
  EXPECT_EQ(world.read("amp.scale").data<float>()[0], 32768);
}

TEST(LossScale, GradientsThatTheBodyReturnsAreNotScaled) {
  World world;
  Parameter w("w", {DType::f32, {4}}, constant_init(2));
  auto f = compile(world.mesh(), [&](Tensor x) { return grad(sum(Tensor(w * x) * x), std::vector<Parameter>{w})[0]; },
                   {.amp = "f16"});
  EXPECT_THAT(list<float>(f(HostArray::of<float>({4}, {1, 2, 3, 4})).value().read()), ElementsAre(1, 4, 9, 16));
}

TEST(LossScale, TheLossScaleIsPartOfACheckpoint) {
  const std::string path = ::testing::TempDir() + "/amp_scale.safetensors";
  {
    ScaledTraining s;
    s.run(1, 0);
    s.run(1e30f, 0);
    s.world.save(path);
  }
  ScaledTraining s;
  s.world.load(path);
  s.run(1, 1);
  EXPECT_EQ(s.scale(), 32768);
  EXPECT_EQ(s.world.read("amp.good").data<std::int64_t>()[0], 1);
}

}  // namespace
}  // namespace karez
