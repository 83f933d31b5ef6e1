// Tests of the bytes of arrays: calls take them without a copy to the host, the world counts them, and they outlive
// functions and resets.
#include "karez/api/state/array_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "karez/api/compile.h"
#include "karez/api/namespace.h"
#include "karez/api/state/world_state.h"
#include "karez/api/testing/test_inputs.h"
#include "karez/api/testing/test_texts.h"

namespace karez {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Array, AChainOfCallsCopiesNothingToTheHost) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("data=2");
  auto f = compile(mesh, [](Tensor x) { return with_layout(x + 1, P("data")); });
  Array y = f(small_integers(DType::f32, {9})).value();
  y = f(y).value();
  y.wait();
  const std::int64_t copies = mesh.world->copies.allocated(), pooled = mesh.world->copies.pooled_bytes();
  for (int i = 0; i < 50; ++i) y = f(y).value();
  EXPECT_EQ(mesh.world->copies.allocated(), copies);
  EXPECT_EQ(mesh.world->copies.pooled_bytes(), pooled);
  const HostArray x = small_integers(DType::f32, {9}), result = y.read();
  for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(result.data<float>()[i], x.data<float>()[i] + 52);
}

TEST(Array, EachOfAThousandCallsCanTakeTheResultOfThePreviousCallWhileItRuns) {
  World world({.devices = 2, .in_flight = 4});
  DeviceMesh mesh = world.mesh("data=2");
  auto f = compile(mesh, [](Tensor x) { return with_layout(x + 1, P("data")); });
  auto g = compile(mesh, [](Tensor x) { return with_layout(x + 2, P("data")); });
  Array y = f(HostArray::of<std::int64_t>({5}, {0, 1, 2, 3, 4})).value();
  for (int i = 0; i < 1000; ++i) y = i % 3 == 0 ? g(y).value() : f(y).value();
  EXPECT_THAT(list<std::int64_t>(y.read()), ElementsAre(1335, 1336, 1337, 1338, 1339));
  EXPECT_EQ(world.held_bytes(), 5 * 8) << "only the last array must be kept";
}

TEST(Array, HeldBytesAreFreedWithTheLastHandle) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("data=2");
  auto f = compile(mesh, [](Tensor x) { return std::pair(with_layout(x + 1, P("data")), x * 2); });
  EXPECT_EQ(world.held_bytes(), 0);
  std::optional<Future> out = f(small_integers(DType::f32, {1000}));
  out->wait();
  EXPECT_EQ(world.held_bytes(), 4000 + 2 * 4000)
      << "expected one split result, and one copy of the replicated result on each device";
  const auto peak = world.counters().peak_bytes;
  std::vector<Array> arrays;
  for (int i = 0; i < 10; ++i) arrays.push_back(f(out->value(0)).value(0));
  arrays.back().wait();
  EXPECT_EQ(world.held_bytes(), 3 * 4000 + 10 * 4000)
      << "later calls must keep only their first result, because the second one has no handle";
  Array copy = arrays[3];
  arrays.clear();
  EXPECT_EQ(world.held_bytes(), 4 * 4000);
  out.reset();
  EXPECT_EQ(world.held_bytes(), 4000);
  EXPECT_EQ(world.counters().held_bytes.at("0.1"), 2000);
  copy = {};
  EXPECT_EQ(world.held_bytes(), 0);
  f(small_integers(DType::f32, {1000})).wait();
  EXPECT_EQ(world.held_bytes(), 0) << "results without a handle must be freed";
  EXPECT_GE(peak.at("0.0"), 0);
}

TEST(Array, MemoryLimitsApplyToPlansAndNotToArrays) {
  World world({.memory = 1 << 20});
  auto f = compile(world.mesh(), [](Tensor x) { return x + 1; });
  std::vector<Array> arrays;
  for (int i = 0; i < 20; ++i) arrays.push_back(f(small_integers(DType::f32, {50000})).value());
  arrays.back().wait();
  EXPECT_EQ(world.held_bytes(), 20 * 200000);
}

TEST(Array, AnArrayOutlivesItsFutureItsFunctionAndAReset) {
  World world({.devices = 2});
  DeviceMesh mesh = world.mesh("data=2");
  Array y;
  {
    auto f = compile(mesh, [](Tensor x) { return with_layout(x + 1, P("data")); });
    y = f(HostArray::of<float>({3}, {1, 2, 3})).value();
  }
  EXPECT_THAT(list(y.read()), ElementsAre(2, 3, 4));
  world.reset();
  EXPECT_THAT(list(y.read()), ElementsAre(2, 3, 4));
  EXPECT_THAT(list(compile(mesh, [](Tensor x) { return x * 2; })(y).value().read()), ElementsAre(4, 6, 8));
}

TEST(Array, UseOfAnArrayAfterItsWorldEndedIsAnError) {
  Array y, pending;
  std::optional<Future> future;
  {
    World world({.devices = 2});
    auto f = compile(world.mesh("data=2"), [](Tensor x) { return with_layout(x + 1, P("data")); });
    y = f(small_integers(DType::f32, {1 << 16})).value();
    for (int i = 0; i < 3; ++i) y = f(y).value();
    Future last = f(y);
    pending = last.value();
    future = last;
  }
  pending.wait();  // the future keeps the world alive
  EXPECT_EQ(pending.read().data<float>()[0], -3 + 5);
  future.reset();
  for (auto use : {+[](const Array& a) { a.read(); }, +[](const Array& a) { a.local(); },
                   +[](const Array& a) { a.wait(); }, +[](const Array& a) { (void)a.done(); }})
    EXPECT_EQ(error_of([&] { use(y); }),
              "the array f32[65536@data] belongs to a world that no longer exists; read it while the World, or a mesh, "
              "function or future of it, is alive");
  World other_world;
  auto f = compile(other_world.mesh(), [](Tensor x) { return x; });
  EXPECT_THAT(error_of([&] { f(y); }), HasSubstr("belongs to a world that no longer exists"));
  EXPECT_EQ(y.type(), (TensorType{DType::f32, {1 << 16}}));
  EXPECT_EQ(y.layout(), Layout{S(0)});
}

}  // namespace
}  // namespace karez
