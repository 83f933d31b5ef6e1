// Tests of gradients outside of compiled functions: leaves, parameters, released records and written parameters.
#include "karez/api/interactive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "karez/api/functions.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"
#include "karez/api/trace/expression.h"
#include "karez/api/world.h"

namespace karez {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor leaf_of(HostArray values) {
  Tensor out(std::move(values));
  require_gradient(out);
  return out;
}

std::vector<Tensor> gradients_of(const Tensor& loss, const GradientTargets& targets,
                                 const BackwardOptions& options = {}) {
  return backward({loss}, {Tensor()}, targets, options);
}

TEST(Backward, GradientsOfALeafAndAParameter) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  const Parameter w("w", {DType::f32, {2}}, constant_init(3));
  const Tensor x = leaf_of(vector_of(1, 2));
  const Tensor loss = sum(x * x * w);
  const GradientTargets targets = gradient_targets({loss});
  ASSERT_EQ(targets.parameters.size(), 1u);
  ASSERT_EQ(targets.leaves.size(), 1u);
  EXPECT_EQ(leaf_identity(targets.leaves[0]), leaf_identity(x));
  const auto gradients = gradients_of(loss, targets);
  EXPECT_THAT(list(gradients[0]), ElementsAre(1, 4));
  EXPECT_THAT(list(gradients[1]), ElementsAre(6, 12));
  EXPECT_FALSE(requires_gradient(gradients[0]));
  EXPECT_EQ(loss.item(), 15);
}

TEST(Backward, RecordsOfHostValuesShareTheGraphOfTheirGradients) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  for (const bool retain_graph : {false, true}) {
    std::vector<std::shared_ptr<const SharedGraph>> first, again;
    for (const float value : {1, 2, 3}) {
      const Tensor x = leaf_of(vector_of(value, 4)), loss = sum(x * x * x);
      const GradientTargets targets{{}, {x}};
      const Tensor gradient = gradients_of(loss, targets, {.retain_graph = retain_graph})[0];
      first.push_back(gradient.lazy->producer()->shared);
      EXPECT_THAT(list(gradient), ElementsAre(3 * value * value, 48));
      if (!retain_graph) continue;
      const Tensor other = gradients_of(loss, targets)[0];
      again.push_back(other.lazy->producer()->shared);
      EXPECT_THAT(list(other), ElementsAre(3 * value * value, 48));
    }
    for (const auto& graphs : {first, again}) {
      if (graphs.empty()) continue;
      EXPECT_NE(graphs[1], nullptr);
      EXPECT_EQ(graphs[1], graphs[2]);
    }
  }
}

TEST(Backward, ASecondCallNeedsTheRecord) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  const Tensor x = leaf_of(vector_of(1, 2)), loss = sum(x * x);
  const GradientTargets targets{{}, {x}};
  gradients_of(loss, targets, {.retain_graph = true});
  EXPECT_THAT(list(gradients_of(loss, targets)[0]), ElementsAre(2, 4));
  EXPECT_THAT(error_of([&] { gradients_of(loss, targets); }), HasSubstr("was released by an earlier call"));
}

TEST(Backward, AValueThatWasReadIsNotComputedAgain) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  const Tensor x = leaf_of(vector_of(1, 2));
  const Tensor hidden = exp(x);
  hidden.read();
  const Tensor loss = sum(hidden * hidden);
  const auto gradients = gradients_of(loss, {{}, {x}});
  const auto expression = gradients[0].lazy->producer();
  ASSERT_NE(expression, nullptr);
  EXPECT_NE(std::find(expression->operands.begin(), expression->operands.end(), hidden.lazy),
            expression->operands.end());
  for (const auto& node : expression->trace.graph.nodes) EXPECT_NE(node.op->name, "exp");
  EXPECT_NEAR(list(gradients[0])[0], 2 * std::exp(2.0), 1e-4);
}

TEST(Backward, WithoutRecordingThereIsNoGradient) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  const Tensor x = leaf_of(vector_of(1, 2));
  Tensor constant;
  {
    const NoGrad no_grad;
    EXPECT_FALSE(is_grad_enabled());
    constant = x * 2;
  }
  EXPECT_TRUE(is_grad_enabled());
  EXPECT_FALSE(requires_gradient(constant));
  EXPECT_FALSE(requires_gradient(stop_gradient(x)));
  EXPECT_TRUE(requires_gradient(x * constant));
  EXPECT_THAT(list(gradients_of(sum(x * constant), {{}, {x}})[0]), ElementsAre(2, 4));
}

TEST(Backward, AParameterThatWasWrittenIsAnError) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  const Parameter w("w", {DType::f32, {2}}, constant_init(3));
  const Tensor x = leaf_of(vector_of(1, 2));
  const auto set_one = compile(mesh, [&](Tensor y) {
    update(w, w * 0 + 1);
    return y;
  });
  const std::pair<const char*, std::function<void()>> writes[] = {
      {"an update", [&] { update(w, w + 1); }},
      {"a write", [&] { world.write(w, vector_of(5, 5)); }},
      {"a compiled function", [&] { set_one(1.0f).wait(); }},
  };
  for (const auto& [name, write] : writes) {
    const Tensor loss = sum(exp(x * w));
    write();
    EXPECT_THAT(error_of([&] { gradients_of(loss, {{}, {x}}); }), HasSubstr("parameter 'w' was written after")) << name;
  }
  const Tensor loss = sum(x * w);  // its gradient with respect to w needs no parameter
  update(w, w + 1);
  EXPECT_THAT(list(gradients_of(loss, {{w}, {}})[0]), ElementsAre(1, 2));
}

TEST(Backward, OnlyFloatTensorsAndResultsWithoutARecordCanBeLeaves) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  Tensor integers(HostArray::of<std::int64_t>({1}, {1}));
  EXPECT_THAT(error_of([&] { require_gradient(integers); }), HasSubstr("only float tensors have gradients"));
  Tensor result = leaf_of(vector_of(1, 2)) * 2;
  EXPECT_THAT(error_of([&] { require_gradient(result); }), HasSubstr("was computed from others"));
}

}  // namespace
}  // namespace karez
