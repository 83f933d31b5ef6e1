// Tests of programs on more than one mesh: each value, variable and function has its own mesh. The tests add a second
// mesh to the trace by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/api/compile.h"
#include "karez/api/namespace.h"
#include "karez/api/trace/trace.h"

namespace karez {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The two devices after the first two.
Mesh second_pair() {
  Mesh mesh = Mesh::parse("model=2");
  mesh.devices = {{0, 2}, {0, 3}};
  return mesh;
}

std::vector<double> list(const HostArray& array) { return {array.data<double>().begin(), array.data<double>().end()}; }

TEST(Meshes, AVariableIsCreatedAndReadOnTheMeshOfItsPartOfTheProgram) {
  World world({.devices = 4});
  const TensorType type{DType::f64, {3}};
  Parameter near("near", type, constant_init(1)), far("far", type, constant_init(2));
  auto step = compile(world.mesh("data=2"),
                      [&](Tensor x) {
                        Trace& trace = Trace::current();
                        Tensor first = near + x;
                        trace.update(near, first.id);
                        trace.graph.meshes.push_back(second_pair());
                        trace.builder.mesh = 1;
                        Tensor second = far * 3.0;
                        trace.update(far, second.id);
                        trace.builder.mesh = 0;
                        return std::pair(first, second);
                      },
                      {.rules = {{"near", P("data")}, {"far", P("model")}}});
  const HostArray x = HostArray::of<double>({3}, {1, 2, 3});
  EXPECT_THAT(list(step(x).value(1).read()), ElementsAre(6, 6, 6));
  Future again = step(x);
  EXPECT_THAT(list(again.value(0).read()), ElementsAre(3, 5, 7));
  EXPECT_THAT(list(again.value(1).read()), ElementsAre(18, 18, 18));
  EXPECT_THAT(list(world.read(near)), ElementsAre(3, 5, 7));
  EXPECT_THAT(list(world.read(far)), ElementsAre(18, 18, 18));
  world.write(far, HostArray::of<double>({3}, {1, 2, 4}));
  EXPECT_THAT(list(step(x).value(1).read()), ElementsAre(3, 6, 12));
  EXPECT_EQ(world.layout(far), Layout{S(0)});
  for (const char* device : {"0.0", "0.1", "0.2", "0.3"}) EXPECT_GT(world.counters().peak_bytes[device], 0) << device;
}

TEST(Meshes, AFunctionIsInlinedOnTheCurrentMeshOfTheTrace) {
  World world({.devices = 4});
  const DeviceMesh here = world.mesh("data=2"), there{here.world, second_pair()};
  Parameter far("far", {DType::f64, {3}}, constant_init(2));
  auto twice = compile(there, [](Tensor x) { return x + x; });
  for (const bool right : {true, false}) {
    auto outer = compile(here, [&](Tensor x) {
      Trace& trace = Trace::current();
      trace.graph.meshes.push_back(second_pair());
      trace.builder.mesh = 1;
      Tensor value = trace.tensor(trace.read(far));
      if (!right) trace.builder.mesh = 0;
      Tensor out = twice(value);
      trace.builder.mesh = 0;
      return std::pair(out, x);
    });
    try {
      EXPECT_THAT(list(outer(1.0).value(0).read()), ElementsAre(4, 4, 4));
      EXPECT_TRUE(right);
    } catch (const Error& error) {
      EXPECT_FALSE(right) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("is compiled for mesh(model=2"));
    }
  }
}

}  // namespace
}  // namespace karez
