// Tests of training equivalence for placements: parts of a model on different meshes train as the model does on one
// device.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include "karez/api/state/world_state.h"
#include "karez/base/test_golden.h"
#include "karez/graph/op.h"
#include "karez/karez.h"
#include "karez/runtime/simulator.h"
#include "tests/namespace.h"
#include "tests/placement_cases.h"

namespace karez::tests {
namespace {

TEST(Placements, TwoDevicesTrainOnePartOfTheModelEach) {
  PlacementResult result = train(2, "", [](World& w) {
    return std::vector<PlacementRule>{{"{entry,block0,block1}", w.mesh("")},
                                      {"{block2,block3,head}", w.mesh("", {.first = 1})}};
  });
  expect_same(result);
  EXPECT_NE(result.graph.find("transfer("), std::string::npos);
  // One activation and its gradient, 2 x 12 x 10 doubles, and small transfers: the step number and the labels.
  EXPECT_GE(result.planned, 20 * 2 * 12 * 10 * 8);
  EXPECT_LE(result.planned, 20 * (2 * 12 * 10 * 8 + 200));
}

TEST(Placements, FourStagesOfOneDeviceTrainTheSame) {
  expect_same(train(4, "stage=4", [](World&) {
    return std::vector<PlacementRule>{{"{entry,block0}", 0}, {"block1", 1}, {"block2", 2}, {"{block3,head}", 3}};
  }));
}

TEST(Placements, TwoStagesOfTwoDevicesTrainTheSame) {
  expect_same(train(4, "stage=2,data=2", [](World&) {
    return std::vector<PlacementRule>{{"{entry,block0,block1}", 0}, {"{block2,block3,head}", 1}};
  }));
}

TEST(Placements, AMeshOfTwoDevicesMayPrecedeASingleDevice) {
  expect_same(train(3, "data=2", [](World& w) {
    return std::vector<PlacementRule>{{"{entry,block0,block1}", w.mesh("data=2")},
                                      {"{block2,block3,head}", w.mesh("", {.first = 2})}};
  }));
}

TEST(Placements, AMeshOfFourDevicesMayPrecedeAMeshOfThree) {
  expect_same(train(7, "data=2,model=2", [](World& w) {
    return std::vector<PlacementRule>{{"{entry,block0,block1}", w.mesh("data=2,model=2")},
                                      {"{block2,block3,head}", w.mesh("model=3", {.first = 4})}};
  }));
}

TEST(Placements, MeshesMayOverlap) {
  expect_same(train(3, "data=3", [](World& w) {
    return std::vector<PlacementRule>{{"{entry,block0}", w.mesh("data=2")},
                                      {"block1", w.mesh("model=3")},
                                      {"block2", w.mesh("data=2", {.devices = {2, 0}})},
                                      {"{block3,head}", w.mesh("", {.first = 1})}};
  }));
}

TEST(Placements, ARuleMayPlaceOnlyABlockInTheMiddle) {
  expect_same(train(2, "", [](World& w) { return std::vector<PlacementRule>{{"block1", w.mesh("", {.first = 1})}}; }));
}

// A layout on some devices of a world, given by names of axes.
struct MeshLayout {
  std::string mesh;
  MeshPlace place;
  std::vector<std::string> axes;  // by dimension of the value
};

TEST(Placements, EveryTransferFromOneMeshToAnotherKeepsTheTensor) {
  const std::vector<MeshLayout> layouts = {
      {"a=2", {}, {"", ""}},
      {"a=2", {}, {"a", ""}},
      {"a=2", {}, {"", "a"}},
      {"", {.first = 3}, {"", ""}},
      {"a=2", {.first = 2}, {"a", ""}},
      {"a=3", {.devices = {4, 1, 0}}, {"a", ""}},
      {"a=3", {.devices = {4, 1, 0}}, {"", "a"}},
      {"a=2,b=2", {.first = 1}, {"a", "b"}},
      {"a=2,b=2", {.first = 1}, {"a+b", ""}},
      {"a=2,b=2", {}, {"b", ""}},
  };
  int pairs = 0;
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::b8}) {
    for (const MeshLayout& a : layouts) {
      for (const MeshLayout& b : layouts) {
        if (dtype != DType::f32 && (&a - layouts.data() + (&b - layouts.data())) % 3 != 0)
          continue;  // all pairs for f32, a third for the other types
        World world({.devices = 5});
        const DeviceMesh from = world.mesh(a.mesh, a.place), to = world.mesh(b.mesh, b.place);
        if (from.mesh == to.mesh) continue;
        const Shape shape = {5, 3};
        auto transfer_value = compile(world.mesh(""), [&](Tensor x) {
          Tensor moved = [&] {
            Placed on(from);
            return with_layout(x, a.axes);
          }();
          Placed on(to);
          return with_layout(moved, b.axes);
        });
        HostArray x(TensorType{dtype, shape});
        std::int64_t next = 0;
        with_type(dtype, [&]<class T>() {
          for (T& value : x.data<T>()) value = static_cast<T>(dtype == DType::b8 ? next++ % 2 : next++);
        });
        const HostArray y = transfer_value(x).value().read();
        ASSERT_EQ(y.type(), x.type());
        EXPECT_EQ(0, std::memcmp(y.bytes(), x.bytes(), static_cast<std::size_t>(x.type().bytes())))
            << a.mesh << " to " << b.mesh;
        std::int64_t planned = 0, counted = world.counters().sent_bytes["transfer"];
        for (const auto& transfer : transfer_value.plan().transfers)
          planned += transfer.kind == plan::CollectiveKind::transfer ? transfer.bytes : 0;
        EXPECT_EQ(planned, counted);
        ++pairs;
      }
    }
  }
  EXPECT_TRUE(pinned(pairs, 184));
}

TEST(Placements, ScalarsAreTransferred) {
  World world({.devices = 3});
  auto f = compile(world.mesh(""), [&](Tensor x) {
    Placed on(world.mesh("a=2", {.first = 1}));
    return x * 2;
  });
  auto g = compile(world.mesh("a=2"), [&](Tensor x) {
    Tensor y = [&] {
      Placed on(world.mesh("a=2"));
      return x + 1;
    }();
    Placed on(world.mesh("a=2", {.first = 1}));
    return y * 2;
  });
  EXPECT_EQ(f(21.0).item(), 42);
  EXPECT_EQ(g(20.0).item(), 42);
  EXPECT_EQ(world.counters().sent_bytes["transfer"], 8)
      << "only device 2 must receive the 8 bytes of the value, because device 1 has them already";
}

}  // namespace
}  // namespace karez::tests
