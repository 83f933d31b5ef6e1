// Tests of functions that see and replace gradients: hooks of tensors and of parts of a program, custom functions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/api/compile.h"
#include "karez/api/functions.h"
#include "karez/api/interactive.h"
#include "karez/api/testing/test_texts.h"
#include "karez/api/world.h"

namespace karez {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> floats(const HostArray& array) { return {array.data<float>().begin(), array.data<float>().end()}; }

// d/dx and d/dw of sum((x * w)^2), where a hook of a part multiplies the gradient of x * w by 10 and that of x by
// `factor`, or replaces the latter by zeros.
Tensor hooked_loss(const Tensor& x, const Tensor& w, std::optional<float> factor) {
  ModuleHook hook;
  hook.inputs = adjacent_copies({x});
  hook.replace_outputs = [](const std::vector<Tensor>&, const std::vector<Tensor>& gradients) {
    return std::vector{gradients[0] * 10};
  };
  hook.replace_inputs = [factor](const std::vector<Tensor>& gradients) {
    return factor ? std::vector{gradients[0] * *factor} : std::vector<Tensor>(1);
  };
  const Tensor product = hook.inputs[0] * w;
  const Tensor y = hooked_copies({product}, std::move(hook))[0];
  return sum(y * y);
}

TEST(TensorHooks, HooksOfPartsReplaceGradients) {
  World world;
  const auto gradients = [](std::optional<float> factor) {
    return [factor](Tensor x, Tensor w) { return grad(hooked_loss(x, w, factor), {x, w}); };
  };
  auto step = compile(world.mesh(), gradients(3.F)), zeros = compile(world.mesh(), gradients(std::nullopt));
  const HostArray x = HostArray::of<float>({2}, {1, 2}), w = HostArray::of<float>({2}, {3, 5});
  Future tripled = step(x, w), dropped = zeros(x, w);
  EXPECT_THAT(floats(tripled.value(0).read()), ElementsAre(2 * 3 * 3 * 30, 2 * 10 * 5 * 30));
  EXPECT_THAT(floats(tripled.value(1).read()), ElementsAre(2 * 3 * 1 * 10, 2 * 10 * 2 * 10));
  EXPECT_THAT(floats(dropped.value(0).read()), ElementsAre(0, 0));
  EXPECT_THAT(floats(dropped.value(1).read()), ElementsAre(2 * 3 * 1 * 10, 2 * 10 * 2 * 10));

  const DeviceMesh mesh = world.mesh();
  const Interactive scope(mesh);
  Tensor a(x), b(w);
  require_gradient(a);
  require_gradient(b);
  const auto outside = backward({hooked_loss(a, b, 3.F)}, {Tensor()}, {{}, {a, b}});
  EXPECT_THAT(floats(outside[0].read()), ElementsAre(2 * 3 * 3 * 30, 2 * 10 * 5 * 30));
  EXPECT_THAT(floats(outside[1].read()), ElementsAre(2 * 3 * 1 * 10, 2 * 10 * 2 * 10));
}

TEST(TensorHooks, CopiesOfNoTensorsAreNoTensors) { EXPECT_TRUE(adjacent_copies({}).empty()); }

// 3 x, with the gradient dy * y.
Tensor tripled(const Tensor& x) {
  return custom_function(
      {x}, [](const std::vector<Tensor>& inputs) { return std::vector{inputs[0] * 3}; },
      [](const std::vector<Tensor>& outputs, const std::vector<Tensor>& gradients) {
        return std::vector{gradients[0] * outputs[0]};
      })[0];
}

TEST(CustomFunctions, TheirGradientsAreThoseThatBackwardReturns) {
  World world;
  const HostArray values = HostArray::of<float>({2}, {1, 2});
  auto step = compile(world.mesh(), [](Tensor x) {
    const Tensor first = grad(sum(tripled(x) * x), {x})[0];
    return std::vector{first, grad(sum(first), {x})[0]};
  });
  Future got = step(values);
  EXPECT_THAT(floats(got.value(0).read()), ElementsAre(6, 18));
  // first = x * y(x) + y(x): its gradient is y + (x + 1) * y, since the gradient of y is dy * y.
  EXPECT_THAT(floats(got.value(1).read()), ElementsAre(3 + 2 * 3, 6 + 3 * 6));

  const DeviceMesh mesh = world.mesh();
  const Interactive scope(mesh);
  Tensor x(values);
  require_gradient(x);
  const Tensor first = backward({sum(tripled(x) * x)}, {Tensor()}, {{}, {x}}, {.create_graph = true})[0];
  EXPECT_THAT(floats(first.read()), ElementsAre(6, 18));
  EXPECT_THAT(floats(backward({sum(first)}, {Tensor()}, {{}, {x}})[0].read()), ElementsAre(3 + 2 * 3, 6 + 3 * 6));
}

TEST(CustomFunctions, AMissingGradientIsZerosAndAMissingResultIsZero) {
  World world;
  auto step = compile(world.mesh(), [](Tensor x, Tensor w) {
    const auto results = custom_function(
        {x, w},
        [](const std::vector<Tensor>& in) {
          return std::vector{in[0] * 2, in[1] * 2};
        },
        [](const std::vector<Tensor>&, const std::vector<Tensor>& gradients) {
          return std::vector{gradients[0] + gradients[1], Tensor()};
        });
    return grad(sum(results[1] * 5), {x, w});
  });
  Future got = step(HostArray::of<float>({2}, {1, 2}), HostArray::of<float>({2}, {3, 5}));
  EXPECT_THAT(floats(got.value(0).read()), ElementsAre(5, 5));
  EXPECT_THAT(floats(got.value(1).read()), ElementsAre(0, 0));
}

TEST(CustomFunctions, InputsAndResultsMustBeFloats) {
  World world;
  const auto identity = [](const std::vector<Tensor>& in) { return in; };
  const auto backward_function = [](const std::vector<Tensor>&, const std::vector<Tensor>& gradients) {
    return gradients;
  };
  auto integers = compile(world.mesh(), [&](Tensor x) { return custom_function({x}, identity, backward_function); });
  EXPECT_THAT(error_of([&] { integers(HostArray::of<std::int64_t>({1}, {1})); }),
              HasSubstr("custom_function: expected one float tensor or more as inputs, got 1 tensors, of which 0"));
  auto bools = compile(world.mesh(), [&](Tensor x) {
    return custom_function(
        {x}, [](const std::vector<Tensor>& in) { return std::vector{in[0] > 0}; }, backward_function);
  });
  EXPECT_THAT(error_of([&] { bools(HostArray::of<float>({1}, {1})); }),
              HasSubstr("custom_function: its results must be float tensors, got bool[1]"));
}

TEST(TensorHooks, AHookSeesAndReplacesTheSumOfAllContributions) {
  World world;
  const HostArray values = HostArray::of<float>({2}, {1, 2});
  int calls = 0;
  auto step = compile(world.mesh(), [&](Tensor x) {
    const Tensor y = x * 2;
    const Tensor loss = sum(y * y) + sum(y);
    register_hook(y, [&](const Tensor& gradient) { return ++calls, gradient * 3; });
    register_hook(y, [&](const Tensor&) { return ++calls, Tensor(); });
    register_hook(y, [&](const Tensor& gradient) { return gradient * 100; }).remove();
    return grad(loss, {x});
  });
  EXPECT_THAT(floats(step(values).value(0).read()), ElementsAre(6 * 5, 6 * 9));
  EXPECT_EQ(calls, 2);

  const DeviceMesh mesh = world.mesh();
  const Interactive scope(mesh);
  Tensor x(values);
  require_gradient(x);
  const Tensor y = x * 2, loss = sum(y * y) + sum(y);
  std::vector<float> seen;
  const HookHandle handle = register_hook(y, [&](const Tensor& gradient) {
    seen = floats(gradient.read());
    return gradient * 3;
  });
  const GradientTargets targets{{}, {x}};
  EXPECT_THAT(floats(backward({loss}, {Tensor()}, targets, {.retain_graph = true})[0].read()), ElementsAre(30, 54));
  EXPECT_THAT(seen, ElementsAre(5, 9));
  handle.remove();
  EXPECT_THAT(floats(backward({loss}, {Tensor()}, targets)[0].read()), ElementsAre(10, 18));
  HookHandle().remove();
}

TEST(TensorHooks, ATensorWithoutGradientHasNoHooks) {
  World world;
  const DeviceMesh mesh = world.mesh();
  const Interactive scope(mesh);
  const auto unchanged = [](const Tensor&) { return Tensor(); };
  EXPECT_THAT(error_of([&] { register_hook(Tensor(HostArray::of<float>({1}, {1})), unchanged); }),
              HasSubstr("register_hook: a tensor f32[1] requires no gradient"));
  EXPECT_THAT(error_of([&] { register_hook(Tensor(HostArray::of<std::int64_t>({1}, {1})), unchanged); }),
              HasSubstr("register_hook: only float tensors have gradients, got i64[1]"));
}

}  // namespace
}  // namespace karez
