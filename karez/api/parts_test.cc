// Tests of meshes, layouts and parts of arrays, parameters and values that are not computed yet, and of from_parts.
#include "karez/api/parts.h"
#include "karez/api/namespace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "karez/api/compile.h"
#include "karez/api/functions.h"
#include "karez/api/interactive.h"
#include "karez/api/ranks/test_ranks.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"
#include "karez/api/testing/test_values.h"

namespace karez {
namespace {
using ::testing::ElementsAre;
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

HostArray matrix(std::int64_t rows, std::vector<float> values) {
  const auto columns = static_cast<std::int64_t>(values.size()) / rows;
  return HostArray::of<float>({rows, columns}, values);
}

TEST(FromParts, SizesAreTheSumsOfDistinctParts) {
  World world({.devices = 4});
  const DeviceMesh mesh = world.mesh("data=2,model=2");
  const HostArray top = matrix(2, {1, 2, 3, 4}), bottom = matrix(1, {5, 6}), left = matrix(2, {1, 3}),
                  right = matrix(2, {2, 4}), lower_left = matrix(1, {5}), lower_right = matrix(1, {6});
  const Array rows = from_parts({top, top, bottom, bottom}, mesh, {S(0), B()});
  EXPECT_EQ(rows.type(), (TensorType{DType::f32, {3, 2}}));
  EXPECT_THAT(list(rows.read()), ElementsAre(1, 2, 3, 4, 5, 6));
  const Array both = from_parts({left, right, lower_left, lower_right}, mesh, {S(0), S(1)},
                                {.shape = Shape{3, 2}, .dtype = DType::f32});
  EXPECT_THAT(list(both.read()), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(both.layout(), (Layout{S(0), S(1)}));
  EXPECT_TRUE(both.done());
  both.wait();
  const std::vector<LocalData> parts =
      local_parts(from_parts({right, left}, world.mesh("data=2", {.devices = {3, 1}}), {S(1)}));
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].device, (DeviceName{0, 3}));
  EXPECT_EQ(parts[0].box, (Box{{0, 2}, {0, 1}}));
  EXPECT_THAT(list(parts[0].data), ElementsAre(2, 4)) << "parts must be in the order of the mesh";
  EXPECT_EQ(parts[1].device, (DeviceName{0, 1}));
  EXPECT_THAT(list(parts[1].data), ElementsAre(1, 3));
}

TEST(FromParts, PartialArraysAreSumsMaximaAndMinima) {
  World world({.devices = 4});
  const DeviceMesh mesh = world.mesh("a=2,b=2");
  const auto values = [&](Reduce reduce) {
    const HostArray first = vector_of(1, 8), second = vector_of(5, 2);
    const Array array = from_parts({first, second, vector_of(3, 3), vector_of(4, 4)}, mesh, {S(0), P(reduce)});
    EXPECT_EQ(array.bytes(), nullptr);
    EXPECT_THAT(list(array.local()[2]), ElementsAre(3, 3));
    EXPECT_THAT(list(Tensor(array) * 1), list(array.read()));
    return list(array.read());
  };
  EXPECT_THAT(values(Reduce::sum), ElementsAre(6, 10, 7, 7));
  EXPECT_THAT(values(Reduce::max), ElementsAre(5, 8, 4, 4));
  EXPECT_THAT(values(Reduce::min), ElementsAre(1, 2, 3, 3));
  const HostArray yes = HostArray::of<bool>({2}, {true, false}), no = HostArray::of<bool>({2}, {false, false});
  const Array any = from_parts({yes, no}, world.mesh("a=2"), {P(Reduce::max)});
  EXPECT_EQ(numbers_of(any.read()), (std::vector<double>{1, 0}));
  const Array all = from_parts({yes, no}, world.mesh("a=2"), {P(Reduce::min)});
  EXPECT_EQ(numbers_of(all.read()), (std::vector<double>{0, 0}));
}

TEST(FromParts, ErrorsDescribeTheParts) {
  World world({.devices = 4});
  const DeviceMesh mesh = world.mesh("data=2");
  const HostArray x = matrix(2, {1, 2, 3, 4}), y = matrix(2, {1, 2, 3, 5}), one = vector_of(1, 2),
                  integers = HostArray::of<std::int32_t>({2, 2}, {1, 2, 3, 4});
  const auto make = [&](std::vector<HostArray> parts, Layout layout, WholeType whole = {}) {
    return [=] { from_parts(parts, mesh, layout, whole); };
  };
  const std::vector<std::pair<std::string, std::function<void()>>> cases = {
      {"from_parts requires a mesh made by World::mesh", [] { from_parts({}, DeviceMesh{}, {}); }},
      {"from_parts: expected 2 parts, one for each device of rank 0 on mesh(data=2) (0.0, 0.1), got 1",
       make({x}, {S(0)})},
      {"from_parts: the layout must have one entry for each axis of mesh(data=2), got (S(0), B)",
       make({x, x}, {S(0), B()})},
      {"from_parts: a part is an uninitialised array", make({x, HostArray()}, {S(0)})},
      {"from_parts: part 0 is f32[2, 2], part 1 is i32[2, 2]; all parts must have the same dtype",
       make({x, integers}, {S(0)})},
      {"from_parts: part 0 is f32[2, 2], part 1 is f32[2]; all parts must have the same number of dimensions",
       make({x, one}, {S(0)})},
      {"from_parts: part 0 is f32[2, 2], but the requested dtype is f64", make({x, x}, {S(0)}, {.dtype = DType::f64})},
      {"from_parts: part 0 is f32[2, 2], but device 0.0 has f32[3, 2] of f32[5@data, 2] on mesh(data=2)",
       make({x, x}, {S(0)}, {.shape = Shape{5, 2}})},
      {"from_parts: part 1 is f32[2, 2], but device 0.1 has f32[1, 2] of f32[3@data, 2] on mesh(data=2)",
       make({x, x}, {S(0)}, {.shape = Shape{3, 2}})},
      {"from_parts: parts 0 and 1 differ, but devices 0.0 and 0.1 hold the same part of f32[2, 2;] on mesh(data=2)",
       make({x, y}, {B()})},
      {"no error", make({x, matrix(2, {1, 2, 3, 4})}, {B()})},
  };
  for (const auto& [text, call] : cases) EXPECT_EQ(error_of(call), text);
  EXPECT_THAT(error_of(make({x, x}, {S(2)})), ::testing::StartsWith("from_parts: "));
}

TEST(FromParts, EachRankPassesItsParts) {
  on_ranks(2, [](const Ranks& job) {
    World world({.devices = 2, .ranks = job});
    const DeviceMesh mesh = world.mesh("data=4");
    const float base = job.rank == 0 ? 0 : 10;
    const Array array = from_parts({vector_of(base + 1, base + 2), vector_of(base + 3, base + 4)}, mesh, {S(0)});
    EXPECT_EQ(array.type(), (TensorType{DType::f32, {8}})) << "every device must count as much as those of this rank";
    EXPECT_THAT(list(array.read()), ElementsAre(1, 2, 3, 4, 11, 12, 13, 14));
    const HostArray two = vector_of(1, 2), one = vector_of(3);
    EXPECT_EQ(error_of([&] {
                from_parts({two, one}, mesh, {S(0)});
              }),
              "from_parts: the parts of this rank have different sizes in dimension 0 and do not cover the complete "
              "dimension; pass the shape of the global array");
    // Rank 1 has no device of this mesh.
    const DeviceMesh first = world.mesh("data=2");
    const std::vector<HostArray> parts = job.rank == 0 ? std::vector{two, one} : std::vector<HostArray>();
    if (job.rank == 1) {
      const char* text =
          "from_parts: rank 1 has no device of mesh(data=2), so it has no part that determines the type; pass shape "
          "and dtype of the global array";
      EXPECT_EQ(error_of([&] { from_parts({}, first, {S(0)}); }), text);
      EXPECT_EQ(error_of([&] { from_parts({}, first, {S(0)}, {.shape = Shape{3}}); }), text);
      EXPECT_EQ(error_of([&] { from_parts({}, first, {S(0)}, {.dtype = DType::f32}); }), text);
      EXPECT_EQ(error_of([&] { from_parts({two}, first, {S(0)}); }),
                "from_parts: expected 0 parts, one for each device of rank 1 on mesh(data=2), got 1");
    }
    const Array small = from_parts(parts, first, {S(0)}, {.shape = Shape{3}, .dtype = DType::f32});
    EXPECT_EQ(small.type(), (TensorType{DType::f32, {3}}));
    EXPECT_EQ(small.local().size(), job.rank == 0 ? 2u : 0u);
    EXPECT_EQ(local_parts(small).size(), job.rank == 0 ? 2u : 0u);
    EXPECT_THAT(list(small.read()), ElementsAre(1, 2, 3));
  });
}

TEST(Parts, CompleteArraysAreGatheredUnlessTheUserSplitThem) {
  World world({.devices = 2});
  const DeviceMesh mesh = world.mesh("d=2");
  const Tensor split = array_on(mesh, random_floats({256, 256}, 1), {"d", ""});
  const Tensor doubled = split * 2, kept = with_layout(split * 2, {"d", ""});
  EXPECT_EQ(place_of(doubled).layout, (Layout{S(0)})) << "the planner's layout must be known after a computation";
  EXPECT_EQ(computed_whole(doubled).layout(), (Layout{B()}));
  EXPECT_EQ(computed_whole(kept).layout(), (Layout{S(0)}));
  EXPECT_EQ(computed_whole(split).layout(), (Layout{S(0)}));
  EXPECT_EQ(computed_whole(sum(split)).layout(), (Layout{B()}));
  EXPECT_TRUE(equal_bits(computed_whole(doubled).read(), kept.read()));
}

TEST(Parts, ValuesAreLaidOnAMesh) {
  World world({.devices = 4});
  const DeviceMesh mesh = world.mesh("d=2"), other = world.mesh("d=2", {.first = 2});
  const Tensor rows = laid_on(matrix(4, {1, 2, 3, 4}), mesh, {"d", ""}), host = vector_of(1, 2);
  EXPECT_EQ(place_of(rows).layout, (Layout{S(0)}));
  EXPECT_EQ(mesh_of(rows)->mesh, mesh.mesh);
  EXPECT_THAT(list(rows), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(rows.array().local()[1].shape(), (Shape{2, 1}));
  EXPECT_EQ(mesh_of(laid_on(vector_of(1, 2), other, {}))->mesh, other.mesh);
  EXPECT_EQ(mesh_of(rows)->mesh, mesh.mesh) << "an array must have the mesh on which it was computed";
  EXPECT_EQ(place_of(rows).mesh->mesh, mesh.mesh);
  EXPECT_FALSE(mesh_of(host).has_value());
  const Interactive scope(other);
  EXPECT_EQ(mesh_of(host + 1)->mesh, other.mesh);
  EXPECT_EQ(mesh_of(rows + 1)->mesh, mesh.mesh);
}

}  // namespace
}  // namespace karez
