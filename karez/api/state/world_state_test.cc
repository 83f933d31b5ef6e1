// Tests of a world's variables after their owners are destroyed.
#include "karez/api/state/world_state.h"

#include <gtest/gtest.h>

#include "karez/api/compile.h"

namespace karez {
namespace {

// The destructor of the last copy deletes the variable; no other call of the world is needed.
TEST(WorldState, AVariableIsDeletedWhenItsLastOwnerIsDestroyed) {
  World world;
  DeviceMesh mesh = world.mesh();
  {
    Parameter p("p", {DType::f32, {4}}, constant_init(1));
    auto f = compile(mesh, [p] { return p * 2.0; });
    f().wait();
    EXPECT_EQ(mesh.world->variables.by_key.size(), 1u);
  }
  EXPECT_TRUE(mesh.world->variables.by_key.empty());
  EXPECT_FALSE(mesh.world->session.has_variable("p", {0, 0, "cpu"}));
}

}  // namespace
}  // namespace karez
