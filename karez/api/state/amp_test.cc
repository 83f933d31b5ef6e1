// Tests of mixed precision: which operations use half types, and that training gives losses close to those of f32.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "karez/api/compile.h"
#include "karez/api/namespace.h"
#include "karez/api/nn.h"
#include "karez/api/optim.h"
#include "karez/api/testing/test_classifier.h"
#include "karez/api/testing/test_texts.h"

namespace karez {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct Setting {
  std::string mesh = "";
  int devices = 1;
  std::string amp = "";
  std::vector<LayoutRule> rules = {};
  int microbatches = 1;
};

std::vector<double> losses(const Setting& run, int steps) {
  World world({.devices = run.devices});
  Classifier net;
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

// Returns the largest difference between two lists of losses, relative to the first loss.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b, std::size_t steps) {
  double largest = 0;
  for (std::size_t i = 0; i < steps; ++i) largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(a[0]));
  return largest;
}

TEST(Amp, LossesAreCloseToThoseOfF32) {
  const auto f32 = losses({}, 120);
  EXPECT_LT(f32.back(), f32.front() / 2);
  for (const char* amp : {"bf16", "f16"}) {
    const auto halves = losses({.amp = amp}, 120);
    EXPECT_NE(halves[0], f32[0]) << amp;  // amp has an effect
    EXPECT_LE(largest_difference(f32, halves, 120), amp == std::string("bf16") ? 5e-2 : 2e-2) << amp;
  }
}

// Sums are computed in f32 on every mesh. Losses may still differ slightly: if a sum is computed in another order, its
// result may be rounded to an adjacent half number, which differs by a relative 2^-8 (bf16) or 2^-11 (f16).
TEST(Amp, ResultsAreEqualOnEveryMeshUpToRounding) {
  const std::vector<LayoutRule> rules_by_name = {
      {"fc1.weight", P("model", nullptr)}, {"fc1.bias", P("model")}, {"fc2.weight", P(nullptr, "model")}};
  for (const char* amp : {"bf16", "f16"}) {
    const double first_tolerance = amp == std::string("bf16") ? 1e-3 : 2e-4,
                 tolerance = amp == std::string("bf16") ? 2e-2 : 5e-3;
    const auto reference = losses({.amp = amp}, 30);
    const Setting runs[] = {{"data=2", 2, amp},
                            {"model=2", 2, amp, rules_by_name},
                            {"data=2,model=2", 4, amp, rules_by_name},
                            {"data=2,model=2", 4, amp},
                            {"", 1, amp, {}, 3}};
    for (const Setting& run : runs) {
      const auto result = losses(run, 30);
      EXPECT_LE(largest_difference(reference, result, 2), first_tolerance) << amp << " " << run.mesh;
      EXPECT_LE(largest_difference(reference, result, 30), tolerance)
          << amp << " " << run.mesh << " " << run.microbatches;
      EXPECT_EQ(result, losses(run, 30)) << "a second run must give the same losses";
    }
  }
}

TEST(Amp, OperandsOfAProductAreRoundedButItsSumIsNot) {
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
  Classifier net;
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
    std::size_t weight_casts = 0;
    for (std::size_t at = pass.text.find(": bf16[32, 32]"); at != pass.text.npos;
         at = pass.text.find(": bf16[32, 32]", at + 1))
      ++weight_casts;
    EXPECT_EQ(weight_casts, 1u) << pass.text;  // the product and its gradient must share the cast of fc2.weight
  }
  for (const Parameter& parameter : net.parameters()) EXPECT_EQ(parameter.dtype(), DType::f32);
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

// The following programs use half types explicitly.
TEST(Halves, OperationsOnHalfTypesAreComputedInF32AndRounded) {
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
  const HostArray sums = out.value(0).read();
  EXPECT_EQ(static_cast<float>(sums.data<tensor::Bf16>()[1]), 256);  // 257 is halfway, and 256 is even
  EXPECT_TRUE(std::isinf(out.item<float>(2)));                       // 90007.25
  EXPECT_TRUE(std::isinf(static_cast<float>(out.value(3).read().data<tensor::F16>()[1])));
  EXPECT_THAT(list<std::int32_t>(out.value(5).read()), ElementsAre(1, 300, 2));
}

TEST(Halves, VariablesOfHalfTypesCanBeTrainedAndSaved) {
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
      const double loss_before = step(x).item();
      for (int i = 0; i < 10; ++i) step(x).wait();
      EXPECT_LT(step(x).item(), loss_before);
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
