// Tests of programs on more than one mesh: each value, variable and function belongs to one mesh. The tests add a
// second mesh to the trace by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/api/compile.h"
#include "karez/api/namespace.h"
#include "karez/api/trace/trace.h"

namespace karez {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns a mesh of devices 2 and 3.
Mesh second_pair() {
  Mesh mesh = Mesh::parse("model=2");
  mesh.devices = {{0, 2}, {0, 3}};
  return mesh;
}

std::vector<double> list(const HostArray& array) { return {array.data<double>().begin(), array.data<double>().end()}; }

TEST(Meshes, AVariableIsCreatedAndReadOnTheMeshOfItsPartOfTheProgram) {
  World world({.devices = 4});
  const TensorType type{DType::f64, {3}};
  Parameter w("w", type, constant_init(1)), v("v", type, constant_init(2));
  auto step = compile(world.mesh("data=2"),
                      [&](Tensor x) {
                        Trace& trace = Trace::current();
                        Tensor first = w + x;
                        trace.update(w, first.id);
                        trace.graph.meshes.push_back(second_pair());
                        trace.builder.mesh = 1;
                        Tensor second = v * 3.0;
                        trace.update(v, second.id);
                        trace.builder.mesh = 0;
                        return std::pair(first, second);
                      },
                      {.rules = {{"w", P("data")}, {"v", P("model")}}});
  const HostArray x = HostArray::of<double>({3}, {1, 2, 3});
  EXPECT_THAT(list(step(x).value(1).read()), ElementsAre(6, 6, 6));
  Future second_call = step(x);
  EXPECT_THAT(list(second_call.value(0).read()), ElementsAre(3, 5, 7));
  EXPECT_THAT(list(second_call.value(1).read()), ElementsAre(18, 18, 18));
  EXPECT_THAT(list(world.read(w)), ElementsAre(3, 5, 7));
  EXPECT_THAT(list(world.read(v)), ElementsAre(18, 18, 18));
  world.write(v, HostArray::of<double>({3}, {1, 2, 4}));
  EXPECT_THAT(list(step(x).value(1).read()), ElementsAre(3, 6, 12));
  EXPECT_EQ(world.layout(v), Layout{S(0)});
  for (const char* device : {"0.0", "0.1", "0.2", "0.3"}) EXPECT_GT(world.counters().peak_bytes[device], 0) << device;
}

TEST(Meshes, AFunctionIsInlinedOnTheCurrentMeshOfTheTrace) {
  World world({.devices = 4});
  const DeviceMesh first_mesh = world.mesh("data=2"), other_mesh{first_mesh.world, second_pair()};
  Parameter v("v", {DType::f64, {3}}, constant_init(2));
  auto twice = compile(other_mesh, [](Tensor x) { return x + x; });
  for (const bool matches : {true, false}) {
    auto outer = compile(first_mesh, [&](Tensor x) {
      Trace& trace = Trace::current();
      trace.graph.meshes.push_back(second_pair());
      trace.builder.mesh = 1;
      Tensor value = trace.tensor(trace.read(v));
      if (!matches) trace.builder.mesh = 0;
      Tensor out = twice(value);
      trace.builder.mesh = 0;
      return std::pair(out, x);
    });
    try {
      EXPECT_THAT(list(outer(1.0).value(0).read()), ElementsAre(4, 4, 4));
      EXPECT_TRUE(matches);
    } catch (const Error& error) {
      EXPECT_FALSE(matches) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("is compiled for mesh(model=2"));
    }
  }
}

}  // namespace
}  // namespace karez
