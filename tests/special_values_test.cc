// Tests of plans with NaN, zeros of both signs and extreme integers: reductions over devices, empty parts, fused
// products, merged updates, and the rewrite that moves ReLU after max pooling.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "karez/karez.h"
#include "tests/namespace.h"

namespace karez::tests {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();

bool same(float a, float b) { return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b); }

// With more devices than elements, the last devices have no elements and must not affect the result.
TEST(SpecialValues, MaximaAndMinimaOverSeveralDevicesEqualThoseOnOneDevice) {
  for (const char* text : {"", "data=2", "data=3", "data=4", "data=2,model=2"}) {
    const Mesh mesh = Mesh::parse(text);
    World world({.devices = mesh.size()});
    auto extremes = compile(world.mesh(mesh.axes), [](Tensor x) { return std::pair(max(x), min(x)); });
    for (std::size_t at = 0; at < 3; ++at) {
      std::vector<float> values{1, 2, -3};
      values[at] = nan;
      Future out = extremes(HostArray::of<float>({3}, values));
      EXPECT_TRUE(std::isnan(out.item<float>(0)) && std::isnan(out.item<float>(1))) << text << ", NaN at " << at;
      values = {-0.0f, -0.0f, -0.0f};
      values[at] = 0.0f;
      out = extremes(HostArray::of<float>({3}, values));
      EXPECT_TRUE(same(out.item<float>(0), 0.0f) && same(out.item<float>(1), -0.0f)) << text << ", +0 at " << at;
    }
    EXPECT_EQ(extremes(HostArray::of<float>({3}, {-inf, -inf, -inf})).item<float>(0), -inf);
    constexpr std::int64_t max_int = std::numeric_limits<std::int64_t>::max(),
                           min_int = std::numeric_limits<std::int64_t>::min();
    Future ends = extremes(HostArray::of<std::int64_t>({3}, {min_int, min_int, min_int}));
    EXPECT_EQ(ends.item<std::int64_t>(0), min_int) << text;
    ends = extremes(HostArray::of<std::int64_t>({3}, {max_int, max_int, max_int}));
    EXPECT_EQ(ends.item<std::int64_t>(1), max_int) << text;
  }
}

// All elements equal to the maximum share the gradient; if the maximum is NaN, all NaN elements share it.
TEST(SpecialValues, TheGradientOfAMaximumGoesToTheMaximalElements) {
  for (const char* text : {"", "data=2", "data=4"}) {
    const Mesh mesh = Mesh::parse(text);
    World world({.devices = mesh.size()});
    auto slope = compile(world.mesh(mesh.axes), [](Tensor x) { return grad(max(x), std::vector{x})[0]; });
    const auto gradient_at = [&](const std::vector<float>& values) {
      const HostArray out = slope(HostArray::of<float>({4}, values)).value(0).read();
      return std::vector<float>(out.data<float>().begin(), out.data<float>().end());
    };
    EXPECT_EQ(gradient_at({1, 3, 3, 2}), (std::vector<float>{0, 0.5, 0.5, 0})) << text;
    EXPECT_EQ(gradient_at({1, nan, inf, nan}), (std::vector<float>{0, 0.5, 0, 0.5})) << text;
  }
}

// A product with bias and ReLU keeps NaN and its gradient, with and without the pass that fuses them.
TEST(SpecialValues, ReluKeepsNanWhetherItIsFusedOrNot) {
  std::vector<std::vector<float>> results;
  for (const bool fused : {true, false}) {
    World world;
    auto f = compile(world.mesh(),
                     [](Tensor x, Tensor w, Tensor b) {
                       Tensor y = relu(matmul(x, w) + b);
                       return std::pair(y, grad(sum(y), std::vector{b})[0]);
                     },
                     {.off = fused ? std::vector<std::string>{} : std::vector<std::string>{"fuse"}});
    Future out = f(HostArray::of<float>({2, 1}, {1, 1}), HostArray::of<float>({1, 4}, {nan, 1, -1, inf}),
                   HostArray::of<float>({4}, {0, nan, 0, 0}));
    const HostArray y = out.value(0).read(), db = out.value(1).read();
    for (std::size_t i = 0; i < 8; ++i) {
      const float expected = std::vector<float>{nan, nan, 0, inf}[i % 4];
      EXPECT_TRUE(same(y.data<float>()[i], expected))
          << (fused ? "fused" : "separate") << " " << i << ": " << y.data<float>()[i];
    }
    EXPECT_EQ(std::vector<float>(db.data<float>().begin(), db.data<float>().end()), (std::vector<float>{2, 2, 0, 2}));
  }
}

// Merged and separate updates give equal bits of weights and state for all values of weights and gradients.
TEST(SpecialValues, MergedUpdatesEqualSeparateUpdates) {
  std::vector<float> special_values{nan, inf, -inf, 0.0f, -0.0f, 1e-40f, -1e-40f, 1, -2, 1e-6f, 3e38f, -3e38f};
  const auto n = static_cast<std::int64_t>(special_values.size() * special_values.size());
  HostArray weights(TensorType{DType::f32, {n}}), gradient(TensorType{DType::f32, {n}});
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    weights.data<float>()[i] = special_values[i % special_values.size()];
    gradient.data<float>()[i] = special_values[i / special_values.size()];
  }
  for (const bool adam : {false, true}) {
    std::vector<std::vector<HostArray>> state;
    std::vector<std::size_t> calls;
    for (const bool merged : {true, false}) {
      World world;
      Parameter a("a", {DType::f32, {n}}, constant_init(0)), b("b", {DType::f32, {n}}, constant_init(0));
      optim::SGD sgd({a, b}, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01});
      optim::Adam adam_optimiser({a, b}, {.lr = 0.1, .weight_decay = 0.01});
      auto step = compile(world.mesh(),
                          [&](Tensor g) {
                            adam ? adam_optimiser.step({g, g * 2.0}) : sgd.step({g, g * 2.0});
                          },
                          {.off = merged ? std::vector<std::string>{} : std::vector<std::string>{"fuse"}});
      step(HostArray(TensorType{DType::f32, {n}})).wait();  // creates the variables
      world.write(a, weights), world.write(b, weights);
      for (int i = 0; i < 2; ++i) step(gradient).wait();
      calls.push_back(0);
      for (const plan::Actor& actor : step.plan().actors) calls.back() += actor.calls.size();
      auto& values_read = state.emplace_back();
      for (const std::string& name : world.variables()) values_read.push_back(world.read(name));
    }
    EXPECT_LT(calls[0], calls[1]) << "a merged update must use one call for both parameters";
    ASSERT_EQ(state[0].size(), state[1].size());
    for (std::size_t v = 0; v < state[0].size(); ++v) {
      if (state[0][v].dtype() != DType::f32) continue;
      for (std::size_t i = 0; i < static_cast<std::size_t>(state[0][v].count()); ++i)
        ASSERT_TRUE(same(state[0][v].data<float>()[i], state[1][v].data<float>()[i]))
            << (adam ? "adam" : "sgd") << ", variable " << v << ", element " << i << ": "
            << state[0][v].data<float>()[i] << " and " << state[1][v].data<float>()[i];
    }
  }
}

// ReLU before max pooling is moved after it; values and gradients stay equal bit for bit for all contents of a window.
TEST(SpecialValues, ReluAfterPoolingEqualsReluBeforeIt) {
  const std::vector<float> special_values{nan, 1, -1, 0.0f, -0.0f, inf, -inf, 2};
  constexpr std::int64_t windows = 8 * 8 * 8;
  HostArray x(TensorType{DType::f32, {windows, 1, 2, 2}});
  for (std::size_t w = 0; w < windows; ++w)
    for (std::size_t k = 0; k < 4; ++k)
      x.data<float>()[w * 4 + k] = special_values[k == 3 ? (w * 5 + 3) % 8 : w >> 3 * k & 7];
  std::vector<HostArray> values, gradients;
  for (const bool moved : {true, false}) {
    World world;
    auto f = compile(world.mesh(),
                     [](Tensor x) {
                       Tensor y = max_pool(relu(x), 2);
                       return std::pair(y, grad(sum(y * y), std::vector{x})[0]);
                     },
                     {.off = moved ? std::vector<std::string>{} : std::vector<std::string>{"canonicalise"}});
    Future out = f(x);
    values.push_back(out.value(0).read());
    gradients.push_back(out.value(1).read());
  }
  for (std::size_t w = 0; w < windows; ++w) {
    EXPECT_TRUE(same(values[0].data<float>()[w], values[1].data<float>()[w])) << "window " << w;
    bool any_nan = false;
    for (std::size_t k = 0; k < 4; ++k) {
      any_nan = any_nan || std::isnan(x.data<float>()[w * 4 + k]);
      EXPECT_TRUE(same(gradients[0].data<float>()[w * 4 + k], gradients[1].data<float>()[w * 4 + k]))
          << "pixel " << k << " of window " << w;
    }
    EXPECT_EQ(std::isnan(values[0].data<float>()[w]), any_nan);
  }
}

}  // namespace
}  // namespace karez::tests
