// Tests of the programs of tensors outside of compiled functions: which expressions share a program, and how many
// programs are kept.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/api/functions.h"
#include "karez/api/interactive.h"
#include "karez/api/state/world_state.h"
#include "karez/api/trace/expression_plans.h"

namespace karez {
namespace {
using ::testing::Each;

TEST(ProgramCache, DependOnTheUpdatedValueOfAParameter) {
  World world;
  Interactive there(world.mesh());
  const Parameter w("w", {DType::f32, {2}}, constant_init(1));
  for (bool tripled : {false, true}) {
    const auto loss = [&](Tensor x) {
      const Tensor more = w + 1, three_times = w * 3;
      update(w, tripled ? three_times : more);
      return sum(more * three_times * x);
    };
    value_and_grad(loss, {.parameters = {w}})(Tensor(1));
    EXPECT_THAT(world.read(w).data<float>(), Each(tripled ? 6 : 2));
  }
}

TEST(ProgramCache, NumberOfProgramsIsBounded) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive there(mesh);
  for (int i = 1; i <= 300; ++i) ASSERT_EQ(sum(full({i}, 1)).item<int>(), i);
  EXPECT_LE(mesh.world->expression_plans->plans.size(), 256u);
  EXPECT_EQ(mesh.world->expression_plans->compiled, 300);
}

TEST(ProgramCache, ProgramsAreDroppedUntilTheirBytesAreBelowTheBound) {
  World world;
  const DeviceMesh mesh = world.mesh();
  Interactive there(mesh);
  const auto run = [](std::int64_t mib) { ASSERT_EQ(max(full({mib << 18}, 1)).item<float>(), 1); };
  for (std::int64_t mib : {1, 20, 21}) run(mib);
  EXPECT_EQ(mesh.world->expression_plans->plans.size(), 3u);
  run(120);
  EXPECT_EQ(mesh.world->expression_plans->plans.size(), 1u);
}

}  // namespace
}  // namespace karez
