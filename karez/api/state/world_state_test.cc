// Tests of a world's variables after their owners are destroyed.
#include "karez/api/state/world_state.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

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

// While one thread looks for variables without an owner, another thread destroys the owner of another variable. The
// search takes long, because it visits many variables after these two.
TEST(WorldState, VariablesAreDeletedIfTheirOwnersAreDestroyedAtTheSameTime) {
  World world;
  const DeviceMesh mesh = world.mesh();
  const auto add = [&](const VariableKey& key) {
    const Parameter owner(key.first, {DType::f32, {4}}, constant_init(1));
    WorldLock lock(*mesh.world);
    mesh.world->add_variable(key, owner, mesh.mesh, {});
    return owner;
  };
  std::vector<Parameter> remaining_owners;
  for (int i = 0; i < 300; ++i) remaining_owners.push_back(add({"q", i}));
  for (int round = 0; round < 200; ++round) {
    std::vector<Parameter> owners{add({"p", 0}), add({"p", 1})};
    std::atomic<int> ready = 0;
    const auto destroy = [&ready](Parameter owner) {
      for (++ready; ready < 2;) {}
      owner = Parameter();
    };
    std::thread other(destroy, std::move(owners[0]));
    destroy(std::move(owners[1]));
    other.join();
    ASSERT_EQ(mesh.world->variables.by_key.size(), remaining_owners.size()) << "round " << round;
  }
}

}  // namespace
}  // namespace karez
