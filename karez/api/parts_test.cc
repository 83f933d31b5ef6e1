// Tests of the mesh, layout and parts of arrays, parameters and values that are not computed yet.
#include "karez/api/parts.h"
#include "karez/api/namespace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/api/compile.h"
#include "karez/api/functions.h"
#include "karez/api/interactive.h"
#include "karez/api/testing/test_texts.h"

namespace karez {
namespace {
using ::testing::HasSubstr;

HostArray ramp(Shape shape) {
  HostArray out(TensorType{DType::f32, std::move(shape)});
  float next = 0;
  for (float& v : out.data<float>()) v = next++;
  return out;
}

TEST(Parts, ArraysTensorsAndParametersHaveAMeshAndALayout) {
  World world({.devices = 4});
  const DeviceMesh mesh = world.mesh("data=2,model=2");
  Parameter w("w", {DType::f32, {5, 4}}, constant_init(1));
  const auto f = compile(mesh, [&](Tensor x) { return with_layout(x + w, P("data", nullptr)); },
                         {.rules = {{"w", P(nullptr, "model")}}});
  const Array y = f(ramp({5, 4})).value();
  EXPECT_EQ(place_of(y).layout, (Layout{S(0), B()}));
  EXPECT_EQ(place_of(y).mesh->mesh, mesh.mesh);
  EXPECT_EQ(place_of(y).mesh->world, mesh.world);
  EXPECT_EQ(place_of(world, w).layout, (Layout{B(), S(1)}));
  EXPECT_EQ(place_of(world, w).mesh->mesh, mesh.mesh);
  Interactive scope(world.mesh());
  const Tensor z = with_layout(Term(y) * 2, P(nullptr, "data+model"));
  EXPECT_EQ(place_of(z).layout, (Layout{S(1), S(1)}));
  EXPECT_EQ(place_of(z).mesh->mesh, mesh.mesh);
  EXPECT_EQ(place_of(Tensor(ramp({2})) + 1).mesh->mesh, world.mesh().mesh);
  EXPECT_FALSE(place_of(Tensor(ramp({2}))).mesh.has_value());
}

TEST(Parts, AnArrayCanBeRebuiltFromItsParts) {
  World world({.devices = 4});
  const DeviceMesh mesh = world.mesh("data=2,model=2");
  const auto f = compile(mesh, [](Tensor x) { return with_layout(x + 0, P("data", "model")); });
  const HostArray x = ramp({5, 3});
  const std::vector<LocalData> parts = local_parts(f(x).value());
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[1].device, (DeviceName{0, 1}));
  EXPECT_EQ(parts[1].box, (Box{{0, 3}, {2, 3}}));
  EXPECT_EQ(list(parts[1].data), (std::vector<float>{2, 5, 8}));
  std::vector<HostArray> data;
  for (const LocalData& part : parts) data.push_back(part.data);
  const Array rebuilt = from_parts(data, mesh, {S(0), S(1)});
  EXPECT_EQ(rebuilt.type(), x.type());
  EXPECT_EQ(list(rebuilt.read()), list(x));
  const Array sum = from_parts({x, x, x, x}, mesh, {P(Reduce::sum), B()});
  EXPECT_EQ(list(sum.read()), list(f(sum).value().read()));
  EXPECT_EQ(sum.read().data<float>()[1], 2);
  EXPECT_EQ(list(sum.local()[3]), list(x)) << "each device must hold its summand";
  EXPECT_EQ(sum.bytes(), nullptr);
}

TEST(Parts, PartsOfTheWrongShapeAreAnErrorThatGivesBothShapes) {
  World world({.devices = 2});
  try {
    from_parts({ramp({2, 3}), ramp({3, 3})}, world.mesh("data=2"), {S(0)});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::shape);
    EXPECT_THAT(error.what(), HasSubstr("part 0 is f32[2, 3], but device 0.0 has f32[3, 3] of f32[5@data, 3]"));
  }
}

}  // namespace
}  // namespace karez
