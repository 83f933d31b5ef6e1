// Tests of mixed precision: which operations use half types, training with losses close to f32's, and the loss scale.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "karez/api/batches.h"
#include "karez/api/compile.h"
#include "karez/api/namespace.h"
#include "karez/api/nn.h"
#include "karez/api/optim.h"
#include "karez/api/test_texts.h"

namespace karez {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct Net : nn::Module {
  using Module::Module;
  nn::Linear fc1{*this, "fc1", 16, 32}, fc2{*this, "fc2", 32, 32}, fc3{*this, "fc3", 32, 4};
  Tensor operator()(Tensor x) { return fc3(tanh(fc2(relu(fc1(x))))); }
};

HostArray images(std::int64_t rows, int step) {
  HostArray out(TensorType{DType::f32, {rows, 16}});
  auto data = out.data<float>();
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = std::sin(0.7f * static_cast<float>(i) + static_cast<float>(step % 3));
  return out;
}
HostArray labels(std::int64_t rows, int step) {
  HostArray out(TensorType{DType::i32, {rows}});
  for (std::int64_t i = 0; i < rows; ++i)
    out.data<std::int32_t>()[static_cast<std::size_t>(i)] = static_cast<std::int32_t>((i * 3 + step % 3) % 4);
  return out;
}

struct Setting {
  std::string mesh = "";
  int devices = 1;
  std::string amp = "";
  std::vector<LayoutRule> rules = {};
  int microbatches = 1;
};

std::vector<double> losses(const Setting& run, int steps) {
  World world({.devices = run.devices});
  Net net;
  optim::Adam adam(net.parameters(), {.lr = 1e-2});
  auto step = compile(world.mesh(run.mesh),
                      [&](Tensor x, Tensor y) {
                        Tensor loss = cross_entropy(net(x), y);
                        adam.step(grad(loss, net.parameters()));
                        return loss;
                      },
                      {.rules = run.rules, .amp = run.amp, .microbatches = run.microbatches});
  std::vector<double> out;
  for (int i = 0; i < steps; ++i) out.push_back(step(images(12, i), labels(12, i)).item());
  return out;
}

double worst(const std::vector<double>& a, const std::vector<double>& b, std::size_t steps) {
  double most = 0;
  for (std::size_t i = 0; i < steps; ++i) most = std::max(most, std::abs(a[i] - b[i]) / std::abs(a[0]));
  return most;
}

TEST(Amp, TrainsNearF32) {
  const auto f32 = losses({}, 120);
  EXPECT_LT(f32.back(), f32.front() / 2);
  for (const char* amp : {"bf16", "f16"}) {
    const auto halves = losses({.amp = amp}, 120);
    EXPECT_NE(halves[0], f32[0]) << amp;  // amp has an effect
    EXPECT_LE(worst(f32, halves, 120), amp == std::string("bf16") ? 5e-2 : 2e-2) << amp;
  }
}

// Sums are f32 on every mesh. Losses still differ if a sum in another order rounds to the adjacent number: by a
// relative 2^-8 or 2^-11 of an element.
TEST(Amp, ResultsAreEqualOnEveryMeshUpToRounding) {
  const std::vector<LayoutRule> by_rule = {
      {"fc1.weight", P("model", nullptr)}, {"fc1.bias", P("model")}, {"fc2.weight", P(nullptr, "model")}};
  for (const char* amp : {"bf16", "f16"}) {
    const double first = amp == std::string("bf16") ? 1e-3 : 2e-4, all = amp == std::string("bf16") ? 2e-2 : 5e-3;
    const auto one = losses({.amp = amp}, 30);
    const Setting runs[] = {{"data=2", 2, amp},
                            {"model=2", 2, amp, by_rule},
                            {"data=2,model=2", 4, amp, by_rule},
                            {"data=2,model=2", 4, amp},
                            {"", 1, amp, {}, 3}};
    for (const Setting& run : runs) {
      const auto many = losses(run, 30);
      EXPECT_LE(worst(one, many, 2), first) << amp << " " << run.mesh;
      EXPECT_LE(worst(one, many, 30), all) << amp << " " << run.mesh << " " << run.microbatches;
      EXPECT_EQ(many, losses(run, 30)) << "second run";
    }
  }
}

TEST(Amp, RoundsOperandsOfAProductButNotItsSum) {
  World world;
  // 1 + 2^-9 is not a bf16 and rounds to 1; the sum of 257 products of 1 is not a bf16 either.
  HostArray a(TensorType{DType::f32, {1, 257}}), b(TensorType{DType::f32, {257, 1}});
  std::fill(a.data<float>().begin(), a.data<float>().end(), 1 + 0x1p-9f);
  std::fill(b.data<float>().begin(), b.data<float>().end(), 1.0f);
  auto f = compile(world.mesh(), [](Tensor x, Tensor y) { return matmul(x, y); }, {.amp = "bf16"});
  EXPECT_EQ(f(a, b).item<float>(), 257);
  auto g = compile(world.mesh(), [](Tensor x, Tensor y) { return matmul(x, y); });
  EXPECT_EQ(g(a, b).item<float>(), 257.501953125f);
}

TEST(Amp, SumsNormsAndLossesAreF32AndPointwiseOpsKeepTheirOperandsType) {
  World world;
  auto f = compile(world.mesh(),
                   [](Tensor x, Tensor w) {
                     Tensor h = tanh(matmul(x, w));
                     return std::pair(matmul(h, w), sum(exp(h)));
                   },
                   {.amp = "bf16", .keep_text = true});
  f.compile({{DType::f32, {8, 8}}, {DType::f32, {8, 8}}});
  std::string graph;
  for (const PassTime& pass : f.passes())
    if (pass.name == std::string("cast")) graph = pass.text;
  EXPECT_THAT(graph, HasSubstr("{wide=true} : f32[8, 8]"));
  EXPECT_THAT(graph, HasSubstr("cast(%"));
  EXPECT_THAT(graph, HasSubstr(": bf16[8, 8]"));
  EXPECT_THAT(graph, Not(HasSubstr("sum) : bf16")));
  EXPECT_EQ(f.graph().type(f.graph().outputs[0].value).dtype, DType::f32);
  EXPECT_THAT(f.summary(), HasSubstr("mixed precision: "));
}

TEST(Amp, AWeightIsCastOnce) {
  World world;
  Net net;
  optim::SGD sgd(net.parameters(), {});
  auto step = compile(world.mesh(),
                      [&](Tensor x, Tensor y) {
                        Tensor loss = cross_entropy(net(x), y);
                        sgd.step(grad(loss, net.parameters()));
                        return loss;
                      },
                      {.amp = "bf16", .keep_text = true});
  step.compile({{DType::f32, {12, 16}}, {DType::i32, {12}}});
  for (const PassTime& pass : step.passes()) {
    if (pass.name != std::string("cast")) continue;
    std::size_t casts = 0;
    for (std::size_t at = pass.text.find("-> bf16"); at != pass.text.npos; at = pass.text.find("-> bf16", at + 1))
      ++casts;
    std::size_t of_weights = 0;
    for (std::size_t at = pass.text.find(": bf16[32, 32]"); at != pass.text.npos;
         at = pass.text.find(": bf16[32, 32]", at + 1))
      ++of_weights;
    EXPECT_EQ(of_weights, 1u) << pass.text;  // of fc2.weight, for the product and for its gradient
  }
  for (const Parameter& parameter : net.parameters()) EXPECT_EQ(parameter.dtype(), DType::f32);
}

// A training step with a loss multiplied by a number that may be too large.
struct Scaled {
  World world;
  Net net;
  optim::Adam adam{net.parameters(), {.lr = 1e-2}};
  Function step;
  explicit Scaled(std::string mesh = "", int devices = 1, std::int64_t interval = 2000)
      : world({.devices = devices}),
        step(compile(world.mesh(mesh),
                     [this](Tensor x, Tensor y, Tensor by) {
                       Tensor loss = cross_entropy(net(x), y) * by;
                       adam.step(grad(loss, net.parameters()));
                       return loss;
                     },
                     {.amp = "f16", .loss_scale = {.interval = interval}})) {}
  void run(float by, int i) { step(images(12, i), labels(12, i), by).wait(); }
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
    Scaled s(mesh, devices);
    s.run(1, 0);
    EXPECT_EQ(s.scale(), 65536) << mesh;
    const auto before = s.state();
    s.run(1e30f, 1);
    EXPECT_EQ(s.scale(), 32768) << mesh;
    EXPECT_EQ(s.state(), before) << mesh;
    s.run(std::numeric_limits<float>::quiet_NaN(), 1);
    EXPECT_EQ(s.scale(), 16384) << mesh;
    EXPECT_EQ(s.state(), before) << mesh;
    s.run(1, 2);
    EXPECT_EQ(s.scale(), 16384) << mesh;
    EXPECT_NE(s.state(), before) << mesh;
    EXPECT_EQ(s.world.read("adam.step").data<std::int64_t>()[0], 2) << mesh;
  }
}

TEST(LossScale, GrowsAfterGoodStepsAndABadStepRestartsTheCount) {
  Scaled s("", 1, 3);
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

// The update kernels test `apply` themselves: one call updates all state in place, without a copy.
TEST(LossScale, ASkippedUpdateIsAnOperandOfTheSingleInPlaceUpdateCall) {
  Scaled s;
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
        const plan::Operand& from = call.in[i / 3 * 4 + i % 3];
        EXPECT_EQ(call.out[i].block, from.reg.valid() ? plan.registers[from.reg].block : from.block) << i;
        EXPECT_EQ(call.out[i].view, from.view) << i;
      }
    }
  EXPECT_EQ(updates, 1);
}

// Optimisers that are compositions select the old or the new state when they write it.
TEST(LossScale, ASkippedUpdateKeepsAllStateOfComposedOptimisers) {
  for (const int which : {0, 1, 2, 3}) {
    World world({.devices = 2});
    Net net;
    optim::RMSprop rms(net.parameters(), {.momentum = 0.9, .centered = true});
    optim::Adagrad adagrad(net.parameters(), {});
    optim::Lion lion(net.parameters(), {});
    optim::SGD sgd(net.parameters(), {.momentum = 0.9, .weight_decay = 0.1});
    auto step = compile(world.mesh("data=2"),
                        [&](Tensor x, Tensor y, Tensor by) {
                          Tensor loss = cross_entropy(net(x), y) * by;
                          const auto grads = grad(loss, net.parameters());
                          which == 0   ? rms.step(grads)
                          : which == 1 ? adagrad.step(grads)
                          : which == 2 ? lion.step(grads)
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
    const auto before = state();
    step(images(12, 1), labels(12, 1), 1e30f).wait();
    EXPECT_EQ(state(), before) << which;
    step(images(12, 1), labels(12, 1), 1.0f).wait();
    EXPECT_NE(state(), before) << which;
  }
}

TEST(LossScale, EachMeshHasItsOwnScale) {
  World world({.devices = 3});
  Net first, second;
  optim::Adam one(first.parameters(), {.lr = 1e-2}), two(second.parameters(), {.lr = 1e-2, .name = "other"});
  const auto step_of = [&](const DeviceMesh& mesh, Net& net, optim::Adam& adam) {
    return compile(mesh,
                   [&](Tensor x, Tensor y, Tensor by) {
                     Tensor loss = cross_entropy(net(x), y) * by;
                     adam.step(grad(loss, net.parameters()));
                     return loss;
                   },
                   {.amp = "f16"});
  };
  auto here = step_of(world.mesh("data=2"), first, one), there = step_of(world.mesh("", {.first = 2}), second, two);
  here(images(12, 0), labels(12, 0), 1.0f).wait();
  there(images(12, 0), labels(12, 0), 1e30f).wait();
  EXPECT_EQ(world.read("amp.scale").data<float>()[0], 65536);
  EXPECT_EQ(world.read("amp.scale.2").data<float>()[0], 32768);
  EXPECT_EQ(world.read("amp.good").data<std::int64_t>()[0], 1);
  EXPECT_EQ(world.read("amp.good.2").data<std::int64_t>()[0], 0);
  auto again = step_of(world.mesh("data=2"), first, one);  // the same mesh, the same scale
  again(images(12, 0), labels(12, 0), 1e30f).wait();
  EXPECT_EQ(world.read("amp.scale").data<float>()[0], 32768);
}

TEST(LossScale, GradientsInTheBodyAreUnscaled) {
  World world;
  Parameter w("w", {DType::f32, {4}}, constant_init(2));
  auto f = compile(world.mesh(), [&](Tensor x) { return grad(sum(Tensor(w * x) * x), std::vector<Parameter>{w})[0]; },
                   {.amp = "f16"});
  EXPECT_THAT(list<float>(f(HostArray::of<float>({4}, {1, 2, 3, 4})).value().read()), ElementsAre(1, 4, 9, 16));
}

TEST(LossScale, TheLossScaleIsPartOfACheckpoint) {
  const std::string path = ::testing::TempDir() + "/amp_scale.safetensors";
  {
    Scaled s;
    s.run(1, 0);
    s.run(1e30f, 0);
    s.world.save(path);
  }
  Scaled s;
  s.world.load(path);
  s.run(1, 1);
  EXPECT_EQ(s.scale(), 32768);
  EXPECT_EQ(s.world.read("amp.good").data<std::int64_t>()[0], 1);
}

TEST(Amp, InvalidOptionsAreErrors) {
  World world;
  auto error = [&](FunctionOptions options) {
    return error_of([&] {
      compile(
          world.mesh(), [](Tensor x) { return matmul(x, x); }, options)
          .compile({{DType::f64, {2, 2}}});
    });
  };
  EXPECT_THAT(error({.amp = "fp16", .name = "f"}), HasSubstr("function 'f': amp is 'fp16'; it must be bf16 or f16"));
  EXPECT_THAT(error({.amp = "bf16"}),
              HasSubstr("multiplies f64, but mixed precision requires f32; cast its operands to f32, or omit amp"));
  EXPECT_THAT(error({.amp = "bf16"}), HasSubstr("amp_test.cc:"));
  EXPECT_THAT(error({.amp = "f16", .loss_scale = {.backoff = 0}}),
              HasSubstr("the loss scale has growth 2.0, interval 2000 and backoff 0.0"));
}

// Half types used by the program itself.
TEST(Halves, HalvesAreComputedInF32AndRoundedToTheirType) {
  World world;
  auto f = compile(world.mesh(), [](Tensor x, Tensor y) {
    Tensor a = cast(x, DType::bf16), b = cast(y, DType::f16);
    return std::vector<Tensor>{a + 1.0, sum(a), matmul(reshape(b, {1, 3}), reshape(b, {3, 1})),
                               exp(b),  a + b,  cast(b, DType::i32)};
  });
  Future out = f(HostArray::of<float>({3}, {1, 256, 0.3f}), HostArray::of<float>({3}, {1, 300, 2.5f}));
  EXPECT_EQ(out.value(0).type().dtype, DType::bf16);
  EXPECT_EQ(out.value(1).type().dtype, DType::bf16);
  EXPECT_EQ(out.value(2).type().dtype, DType::f16);
  EXPECT_EQ(out.value(4).type().dtype, DType::f32);  // as in PyTorch
  EXPECT_EQ(out.item<float>(1), 258);                // 257.30078125; bf16 has 256 and 258
  const HostArray more = out.value(0).read();
  EXPECT_EQ(static_cast<float>(more.data<tensor::Bf16>()[1]), 256);  // 257 is halfway, and 256 is even
  EXPECT_TRUE(std::isinf(out.item<float>(2)));                       // 90007.25
  EXPECT_TRUE(std::isinf(static_cast<float>(out.value(3).read().data<tensor::F16>()[1])));
  EXPECT_THAT(list<std::int32_t>(out.value(5).read()), ElementsAre(1, 300, 2));
}

TEST(Halves, HalfVariablesAreTrainedAndSaved) {
  const std::string path = ::testing::TempDir() + "/halves.safetensors";
  for (const DType dtype : {DType::bf16, DType::f16}) {
    std::vector<std::byte> bytes;
    Parameter first("w", {dtype, {4, 4}}, uniform_init(0.5));
    {
      World world({.devices = 2});
      optim::SGD sgd({first}, {.lr = 0.1});
      auto step = compile(world.mesh("data=2"), [&](Tensor x) {
        Tensor y = matmul(cast(x, dtype), first), loss = sum(y * y);
        sgd.step(grad(loss, std::vector<Parameter>{first}));
        return loss;
      });
      HostArray x(TensorType{DType::f32, {6, 4}});
      std::fill(x.data<float>().begin(), x.data<float>().end(), 0.25f);
      const double before = step(x).item();
      for (int i = 0; i < 10; ++i) step(x).wait();
      EXPECT_LT(step(x).item(), before);
      world.save(path);
      const HostArray value = world.read(first);
      EXPECT_EQ(value.dtype(), dtype);
      bytes.assign(value.bytes(), value.bytes() + value.type().bytes());
    }
    World world;
    world.load(path, {.parameters = {first}, .extra = true});
    auto f = compile(world.mesh(), [&] { return cast(first, DType::f32); });
    f().wait();
    const HostArray value = world.read(first);
    EXPECT_EQ(std::memcmp(value.bytes(), bytes.data(), bytes.size()), 0);
  }
}

}  // namespace
}  // namespace karez
