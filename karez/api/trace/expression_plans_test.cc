// Tests of the programs of expressions: which expressions share a program, which values a program computes, and how
// many programs are kept.
#include "karez/api/trace/expression_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/api/functions.h"
#include "karez/api/interactive.h"
#include "karez/api/nn.h"
#include "karez/api/state/world_state.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"
#include "karez/api/trace/trace.h"

namespace karez {
namespace {
using ::testing::Each;
using ::testing::ElementsAre;

std::int64_t count_programs(const DeviceMesh& mesh) { return mesh.world->expression_plans.compiled; }

TEST(ExpressionPlans, ANewNumberReusesTheProgramButANewShapeDoesNot) {
  World world;
  const DeviceMesh mesh = world.mesh();
  const Array a = array_on(mesh, vector_of(1, 2, 3));
  for (int i = 0; i < 20; ++i) EXPECT_THAT(list(a * i + 0.5 * i), ElementsAre(1.5f * i, 2.5f * i, 3.5f * i));
  EXPECT_EQ(count_programs(mesh), 1);
  Interactive scope(mesh);
  for (int i = 0; i < 5; ++i) EXPECT_THAT(list(full({2}, i)), ElementsAre(i, i));
  EXPECT_EQ(count_programs(mesh), 2);
  EXPECT_THAT(list(full({1}, 4)), ElementsAre(4));
  EXPECT_EQ(count_programs(mesh), 3);
}

TEST(ExpressionPlans, AttributesAndOperandsArePartOfTheStructure) {
  World world;
  const DeviceMesh mesh = world.mesh();
  const Array a = array_on(mesh, HostArray::of<float>({2, 2}, {1, 2, 3, 4})),
              b = array_on(mesh, HostArray::of<float>({2, 2}, {5, 6, 7, 8}));
  EXPECT_THAT(list(sum(a, {0})), ElementsAre(4, 6));
  EXPECT_THAT(list(sum(a, {1})), ElementsAre(3, 7));
  EXPECT_THAT(list(a - b), ElementsAre(-4, -4, -4, -4));
  EXPECT_THAT(list(a - a), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(list((a + b) - b), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(list((a + b) - a), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(list(a - (b + a)), ElementsAre(-5, -6, -7, -8));
  EXPECT_EQ(count_programs(mesh), 7);
  // Two expressions with the same operations and different operands.
  const Array ones = array_on(mesh, HostArray::of<float>({2, 2}, {1, 1, 1, 1}));
  EXPECT_EQ(value_and_grad([](Tensor x, Tensor y, Tensor z) { return sum(x * (y - z)); })(ones, a, b).value.item(),
            -16);
  EXPECT_EQ(value_and_grad([](Tensor x, Tensor y, Tensor z) { return sum(x * (z - y)); })(ones, a, b).value.item(), 16);
}

TEST(ExpressionPlans, ASharedSubexpressionIsComputedOnceAndKept) {
  World world;
  const DeviceMesh mesh = world.mesh();
  const Array a = array_on(mesh, vector_of(1, 2, 3));
  const Tensor shared = exp(a);
  const Tensor left = shared + 1, right = shared * 2;
  EXPECT_NE(shared.lazy->producer(), nullptr);
  left.read();
  EXPECT_EQ(shared.lazy->producer(), nullptr) << "an intermediate value that can still be read must be kept";
  EXPECT_NE(right.lazy->producer(), nullptr) << "a value that is not needed yet must not be computed";
  const Array shared_array = shared.array();
  right.read();
  const auto programs = count_programs(mesh);
  left.read();
  right.read();
  EXPECT_EQ(count_programs(mesh), programs) << "existing values must not be computed again";
  EXPECT_TRUE(equal_bits(shared_array.read(), exp(a).read()));
}

TEST(ExpressionPlans, ValuesWithoutAHandleAreNotResults) {
  World world;
  const DeviceMesh mesh = world.mesh();
  const Array a = array_on(mesh, random_floats({256}, 1));
  const auto held_before = world.held_bytes();
  const Tensor c = exp(a) * 2 + 1;  // its two intermediate values have no handle
  c.array().wait();
  EXPECT_EQ(world.held_bytes() - held_before, 1024);
  const Tensor d = exp(a), e = d * 2 + 1;
  e.array().wait();
  EXPECT_EQ(world.held_bytes() - held_before, 3072) << "d has a handle, so its array must be kept";
}

TEST(ExpressionPlans, DestroyedTensorsAreNotComputed) {
  World world;
  const DeviceMesh mesh = world.mesh();
  const Array a = array_on(mesh, vector_of(1, 2, 3));
  std::weak_ptr<LazyValue> dropped;
  {
    Tensor b = a;
    for (int i = 0; i < 50; ++i) b = b + i;
    dropped = b.lazy;
  }
  EXPECT_TRUE(dropped.expired());
  EXPECT_EQ(count_programs(mesh), 0);
}

TEST(ExpressionPlans, LongChainsRunInPartsWhileTheyAreBuilt) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Tensor x = array_on(mesh, vector_of(0, 1, 2));
  const auto initial_bytes = world.held_bytes();
  for (int i = 0; i < 10000; ++i) {
    x = x + 1;
    ASSERT_LE(x.lazy->producer() == nullptr ? 0 : x.lazy->producer()->depth, max_expression_depth);
    ASSERT_LE(world.held_bytes(), initial_bytes + 12 * 16);
  }
  EXPECT_THAT(list(x), ElementsAre(10000, 10001, 10002));
  EXPECT_LE(count_programs(mesh), 3);
}

TEST(ExpressionPlans, TheNumberOfProgramsOfForkingChainsIsBounded) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Tensor a = array_on(mesh, vector_of(1, 1, 1)), b = array_on(mesh, vector_of(0, 1, 2));
  float p[3] = {1, 1, 1}, y[3] = {0, 1, 2};
  for (int i = 0; i < 500; ++i) {  // each new value depends on both previous values
    const Tensor next = (a + b) / 2;
    b = (b - a) * 0.5;
    a = next + next - next;
  }
  for (int i = 0; i < 500; ++i)
    for (int k = 0; k < 3; ++k) {
      const float next = (p[k] + y[k]) / 2;
      y[k] = (y[k] - p[k]) * 0.5f;
      p[k] = next + next - next;
    }
  EXPECT_THAT(list(a), ElementsAre(p[0], p[1], p[2]));
  EXPECT_LE(count_programs(mesh), 12);
}

TEST(ExpressionPlans, AResetDeletesProgramsButNotTensors) {
  World world;
  const DeviceMesh mesh = world.mesh();
  const Array a = array_on(mesh, vector_of(1, 2, 3));
  const Tensor b = a + 1, c = a + 2;
  b.read();
  world.reset();
  EXPECT_THAT(list(b), ElementsAre(2, 3, 4));
  EXPECT_THAT(list(c), ElementsAre(3, 4, 5));
}

TEST(ExpressionPlans, ProgramsDependOnTheUpdatedValueOfAParameter) {
  World world;
  Interactive scope(world.mesh());
  const Parameter w("w", {DType::f32, {2}}, constant_init(1));
  for (bool tripled : {false, true}) {
    const auto loss = [&](Tensor x) {
      const Tensor incremented = w + 1, three_times = w * 3;
      update(w, tripled ? three_times : incremented);
      return sum(incremented * three_times * x);
    };
    value_and_grad(loss, {.parameters = {w}})(Tensor(1));
    EXPECT_THAT(world.read(w).data<float>(), Each(tripled ? 6 : 2));
  }
}

TEST(ExpressionPlans, TheNumberOfProgramsIsBounded) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  for (int i = 1; i <= 300; ++i) ASSERT_EQ(sum(full({i}, 1)).item<int>(), i);
  EXPECT_LE(mesh.world->expression_plans.entries.size(), 256u);
  EXPECT_EQ(mesh.world->expression_plans.compiled, 300);
}

// The values of an iota are computed when the plan is loaded, and kept.
TEST(ExpressionPlans, ProgramsAreDroppedUntilTheirConstantsAreBelowTheLimit) {
  World world;
  const DeviceMesh mesh = world.mesh();
  const Array one = array_on(mesh, HostArray::of<float>({1}, {1}));
  const auto run = [&](std::int64_t mib) {
    ASSERT_GT(max(iota({mib << 18}, 0) * one).item<float>(), static_cast<float>(mib << 17));
  };
  const auto& entries = mesh.world->expression_plans.entries;
  for (std::int64_t mib : {1, 40, 50}) run(mib);
  EXPECT_EQ(entries.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t mib = std::vector{1, 40, 50}[i];
    std::int64_t constants = 0;
    for (const plan::Block& block : entries[i].plan->function.plan().blocks)
      if (block.kind == plan::BlockKind::constant) constants += block.bytes;
    EXPECT_GE(constants, mib << 20);
    EXPECT_NEAR(static_cast<double>(entries[i].bytes), static_cast<double>(constants), 256 << 10);
  }
  run(200);
  EXPECT_EQ(entries.size(), 2u);
  run(300);
  EXPECT_EQ(entries.size(), 1u);
}

// Each program reads 32 MB of operands and parameters.
TEST(ExpressionPlans, OperandsAndIntermediateValuesOfAProgramDoNotCount) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  const Parameter weight("weight", {DType::f32, {16, 1 << 18}}, constant_init(1));
  compile(mesh, [&](Tensor x) { return x + sum(weight); })(1.0f).wait();
  const Array x = array_on(mesh, random_floats({16, 1 << 18}, 1));
  for (int round = 0; round < 2; ++round)
    for (int i = 1; i <= 16; ++i) sum(exp(slice(x, {0, 0}, {i, 1 << 18})) * slice(weight, {0, 0}, {i, 1 << 18})).read();
  EXPECT_EQ(mesh.world->expression_plans.compiled, 16);
  EXPECT_EQ(mesh.world->expression_plans.entries.size(), 16u);
}

TEST(ExpressionPlans, GrowingShapesOfAModelAreCompiledOnlyInTheFirstRound) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive scope(mesh);
  struct Net : nn::Module {
    nn::LayerNorm norm{*this, "norm", {512}};
    nn::Linear up{*this, "up", 512, 2048}, down{*this, "down", 2048, 512};
    Tensor operator()(Tensor x) { return x + down(gelu(up(norm(x)))); }
  } net;
  const HostArray x = random_floats({64, 512}, 1);
  compile(mesh, [&](Tensor v) { return net(v); })(x).wait();
  std::vector<HostArray> first;
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t length = 1; length <= 64; ++length) {
      const HostArray rows = HostArray::of<float>(
          {length, 512}, std::vector<float>(x.data<float>().begin(), x.data<float>().begin() + length * 512));
      const HostArray y = net(rows).read();
      if (round == 0) first.push_back(y);
      else EXPECT_TRUE(equal_bits(y, first[static_cast<std::size_t>(length) - 1])) << length;
    }
    EXPECT_EQ(mesh.world->expression_plans.compiled, 64) << "round " << round;
  }
}

TEST(ExpressionPlans, RequestedLayoutsArePartOfTheStructure) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("data=2");
  const Array a = array_on(mesh, HostArray::of<float>({2, 2}, {1, 2, 3, 4}));
  for (const auto& [axes, layout] : {std::pair{P("data", nullptr), S(0)}, {P(nullptr, "data"), S(1)}})
    EXPECT_EQ(with_layout(a * 2, axes).array().layout(), Layout{layout});
  EXPECT_EQ(count_programs(mesh), 2);
}

// The function reads the new parameter first, and a parameter whose variable is split after it.
TEST(ExpressionPlans, AParameterWithoutAVariableHasNoSplitAxes) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("data=2");
  Interactive scope(mesh);
  const TensorType type{DType::f32, {256, 256}};
  const Parameter is_new("new", type, constant_init(1)), split("split", type, constant_init(1));
  compile(mesh, [&](Tensor x) { return x + sum(split); }, {.rules = {{"split", P("data", nullptr)}}})(1.0f).wait();
  const auto loss = [&](Tensor x) {
    const Tensor product = is_new * is_new * x;
    return sum(product) + sum(split * split);
  };
  const auto result = value_and_grad(loss, {.parameters = {is_new, split}})(Tensor(1));
  EXPECT_EQ(result.gradients[0].array().layout(), Layout{B()});
  EXPECT_EQ(result.gradients[1].array().layout(), Layout{S(0)});
}

}  // namespace
}  // namespace karez
