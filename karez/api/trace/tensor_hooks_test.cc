// Tests of hooks that replace the gradients at the inputs and outputs of a part of a program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/api/compile.h"
#include "karez/api/functions.h"
#include "karez/api/world.h"

namespace karez {
namespace {
using ::testing::ElementsAre;

std::vector<float> floats(const HostArray& array) { return {array.data<float>().begin(), array.data<float>().end()}; }

// d/dx and d/dw of sum((x * w)^2), where a hook multiplies the gradient of x * w by 10 and that of x by `factor`, or
// replaces the latter by zeros.
std::vector<Tensor> hooked_gradients(const Tensor& x, const Tensor& w, std::optional<float> factor) {
  TensorHook hook;
  hook.inputs = adjacent_copies({x});
  hook.outputs = adjacent_copies({hook.inputs[0] * w});
  hook.replace_outputs = [](const std::vector<Tensor>& gradients) { return std::vector{gradients[0] * 10}; };
  hook.replace_inputs = [&](const std::vector<Tensor>& gradients) {
    return factor ? std::vector{gradients[0] * *factor} : std::vector<Tensor>(1);
  };
  return grad(sum(hook.outputs[0] * hook.outputs[0]), {x, w}, {hook});
}

TEST(TensorHooks, HooksReplaceGradients) {
  World world;
  auto step = compile(world.mesh(), [](Tensor x, Tensor w) { return hooked_gradients(x, w, 3.F); });
  auto zeros = compile(world.mesh(), [](Tensor x, Tensor w) { return hooked_gradients(x, w, std::nullopt); });
  const HostArray x = HostArray::of<float>({2}, {1, 2}), w = HostArray::of<float>({2}, {3, 5});
  Future tripled = step(x, w), dropped = zeros(x, w);
  EXPECT_THAT(floats(tripled.value(0).read()), ElementsAre(2 * 3 * 3 * 30, 2 * 10 * 5 * 30));
  EXPECT_THAT(floats(tripled.value(1).read()), ElementsAre(2 * 3 * 1 * 10, 2 * 10 * 2 * 10));
  EXPECT_THAT(floats(dropped.value(0).read()), ElementsAre(0, 0));
  EXPECT_THAT(floats(dropped.value(1).read()), ElementsAre(2 * 3 * 1 * 10, 2 * 10 * 2 * 10));
}

TEST(TensorHooks, CopiesOfNoTensorsAreNoTensors) { EXPECT_TRUE(adjacent_copies({}).empty()); }

}  // namespace
}  // namespace karez
