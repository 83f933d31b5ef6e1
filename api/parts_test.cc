// Tests of where values lie: asked of arrays, of what is not computed yet, and of parameters.
#include "api/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/compile.h"
#include "api/functions.h"
#include "api/inside/rooms.h"
#include "api/interactive.h"

namespace karez {
namespace {
using ::testing::HasSubstr;

HostArray counted(Shape shape) {
  HostArray out(TensorType{DType::f32, std::move(shape)});
  float next = 0;
  for (float& v : out.data<float>()) v = next++;
  return out;
}

TEST(Parts, AnArrayATensorAndAParameterSayWhereTheyLie) {
  World world({.devices = 4});
  const DeviceMesh mesh = world.mesh("data=2,model=2");
  Parameter w("w", {DType::f32, {5, 4}}, constant_init(1));
  const auto f = compile(mesh, [&](Tensor x) { return with_layout(x + w, P("data", nullptr)); }, {.rules = {{"w", P(nullptr, "model")}}});
  const Array y = f(counted({5, 4})).value();
  EXPECT_EQ(place_of(y).layout, (Layout{S(0), B()}));
  EXPECT_EQ(place_of(y).mesh->mesh, mesh.mesh);
  EXPECT_EQ(place_of(y).mesh->world, mesh.world);
  EXPECT_EQ(place_of(world, w).layout, (Layout{B(), S(1)}));
  EXPECT_EQ(place_of(world, w).mesh->mesh, mesh.mesh);
  Interactive here(world.mesh());
  const Tensor z = with_layout(Term(y) * 2, P(nullptr, "data+model"));
  EXPECT_EQ(place_of(z).layout, (Layout{S(1), S(1)}));
  EXPECT_EQ(place_of(z).mesh->mesh, mesh.mesh);
  EXPECT_EQ(place_of(Tensor(counted({2})) + 1).mesh->mesh, world.mesh().mesh);
  EXPECT_FALSE(place_of(Tensor(counted({2}))).mesh.has_value());
}

}  // namespace
}  // namespace karez
