// Tests of resume equivalence. Resumed training gives bit for bit the losses and state of uninterrupted training,
// including data order and dropout, and a state has the same bits after it is restored on another mesh.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "karez/karez.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {
namespace fs = std::filesystem;

// 70 images whose grey level encodes the label, so that 20 steps of 8 take more than two epochs.
data::Dataset images() {
  HostArray pixels(TensorType{DType::f32, {70, 1, 4, 4}}), labels(TensorType{DType::i32, {70}});
  for (int i = 0; i < 70; ++i) {
    labels.data<std::int32_t>()[static_cast<std::size_t>(i)] = i % 4;
    for (int p = 0; p < 16; ++p)
      pixels.data<float>()[static_cast<std::size_t>(16 * i + p)] =
          (static_cast<float>((i % 4) * 50 + (i * 7 + p * 13) % 40) / 255 - 0.3f) / 0.3f;
  }
  return data::from_arrays({pixels, labels});
}

struct Net : nn::Module {
  nn::Conv2d conv{*this, "conv", 1, 6, 3};
  nn::Linear fc1{*this, "fc1", 24, 16}, fc2{*this, "fc2", 16, 4};
  Tensor operator()(Tensor x) { return fc2(dropout(relu(fc1(dropout(flatten(relu(conv(x))), 0.2))), 0.3)); }
};

struct Training {
  Training(const std::string& mesh, std::uint64_t seed, const std::vector<LayoutRule>& rules = {}, int microbatches = 1)
      : world({.devices = Mesh::parse(mesh).size(), .seed = seed}),
        ema(net.parameters(), 0.9),
        step(compile(world.mesh(mesh),
                     [this](Tensor x, Tensor y) {
                       Tensor loss = cross_entropy(net(x), y);
                       adam.step(optim::clip_by_global_norm(grad(loss, net.parameters()), 1.0).grads);
                       ema.update();
                       return loss;
                     },
                     {.rules = rules, .microbatches = microbatches})) {}

  // Trains with the batches at the given positions; several calls are pending at once.
  std::vector<double> train(std::int64_t from, std::int64_t to) {
    std::vector<Future> futures;
    for (std::int64_t at = from; at < to; ++at) {
      adam.set_lr(rate(at));
      const data::Element batch = batches.at(at % batches.size().value(), at / batches.size().value());
      futures.push_back(step.call({data::array_of(batch, 0), data::array_of(batch, 1)}));
    }
    std::vector<double> losses;
    for (const Future& future : futures) losses.push_back(future.item());
    return losses;
  }
  std::map<std::string, std::string> state() const {
    std::map<std::string, std::string> out;
    for (const std::string& name : world.variables()) {
      const HostArray value = world.read(name);
      out[name].assign(reinterpret_cast<const char*>(value.bytes()), static_cast<std::size_t>(value.type().bytes()));
    }
    return out;
  }

  World world;
  bool sites_restarted = (restart_sites(), true);  // equal seeds give equal initial weights
  Net net;
  optim::Schedule rate = optim::cosine_schedule(1e-2, 20, 3);
  data::Dataset batches = images().shuffle({.seed = 4}).batch(8, data::LastBatch::drop);
  optim::Adam adam{net.parameters(), {.lr = 1e-2}};
  optim::EMA ema;
  Function step;
};

class ResumeEquivalence : public ::testing::Test {
 protected:
  ResumeEquivalence()
      : path_((fs::path(::testing::TempDir()) / ("karez_resume_" + std::to_string(::getpid()) + ".safetensors"))
                  .string()) {}
  ~ResumeEquivalence() override { fs::remove(path_); }

  // Compares 20 steps with 10 steps, a checkpoint, and 10 more steps in a new world.
  void expect_resumed(const std::string& mesh, const std::vector<LayoutRule>& rules = {}, int microbatches = 1) {
    SCOPED_TRACE("'" + mesh + "', micro-batches " + std::to_string(microbatches));
    Training uninterrupted(mesh, 3, rules, microbatches), before_save(mesh, 3, rules, microbatches),
        second(mesh, 77, rules, microbatches);
    const auto all_losses = uninterrupted.train(0, 20);
    auto resumed_losses = before_save.train(0, 10);
    before_save.world.save(path_, {.position = 10});
    const std::int64_t position = second.world.load(path_).position;
    for (double loss : second.train(position, 20)) resumed_losses.push_back(loss);
    EXPECT_EQ(resumed_losses, all_losses);
    EXPECT_EQ(second.state(), uninterrupted.state());
    EXPECT_LT(all_losses.back(), all_losses.front());
    EXPECT_NE(Training(mesh, 77, rules, microbatches).train(0, 1)[0], all_losses[0])
        << "without a loaded state, another seed must give another loss";
  }
  std::string path_;
};

TEST_F(ResumeEquivalence, ResumedTrainingEqualsUninterruptedTrainingBitForBit) {
  expect_resumed("");
  expect_resumed("data=2,model=2");
  expect_resumed("data=3");
  expect_resumed("data=2", {}, 4);
  expect_resumed("data=2", {{"adam.*.*.weight", P("data")}, {"fc*.weight", P(nullptr)}});
}

TEST_F(ResumeEquivalence, StateIsTheSameOnAnotherMeshBitForBit) {
  Training original("data=2,model=2", 3, {{"fc1.weight", P("model", nullptr)}});
  original.train(0, 5);
  original.world.save(path_, {.position = 5});
  const auto state = original.state();
  for (const char* mesh : {"", "data=4", "model=3"}) {
    Training trained(mesh, 9), untrained(mesh, 9);
    trained.train(0, 1);
    trained.world.load(path_);
    EXPECT_EQ(trained.state(), state) << mesh;
    untrained.world.load(path_);
    EXPECT_EQ(untrained.train(5, 6), trained.train(5, 6))
        << mesh << ": variables that are created after the load must have the loaded values";
    EXPECT_EQ(untrained.state(), trained.state()) << mesh;
    untrained.world.save(path_ + "2", {.position = 6});
    Training back("data=2,model=2", 1, {{"fc1.weight", P("model", nullptr)}});
    back.train(0, 1);
    back.world.load(path_ + "2");
    EXPECT_EQ(back.state(), trained.state()) << mesh << " and back";
    fs::remove(path_ + "2");
  }
}

}  // namespace
}  // namespace karez::tests
