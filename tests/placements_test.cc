// Law 3 for placements: parts of a model on meshes of different sizes and shapes train as the whole does on one device.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "api/karez.h"
#include "graph/op.h"

namespace karez::tests {
namespace {

// Four blocks between an entry and a head that no module holds; dropout in each.
struct Block4 : nn::Module {
  Block4(Module& parent, const std::string& name, std::int64_t width)
      : Module(parent, name),
        up(*this, "up", width, 2 * width),
        down(*this, "down", 2 * width, width),
        drop(*this, "drop", 0.2) {}
  nn::Linear up, down;
  nn::Dropout drop;
  Tensor operator()(Tensor x) { return x + drop(down(tanh(up(x)))); }
};

struct Tower : nn::Module {
  Tower() : Module(DType::f64) {}
  nn::Linear entry{*this, "entry", 6, 10};
  Block4 block0{*this, "block0", 10}, block1{*this, "block1", 10}, block2{*this, "block2", 10}, block3{*this, "block3", 10};
  nn::Linear head{*this, "head", 10, 5};
  Tensor operator()(Tensor x) { return head(block3(block2(block1(block0(entry(x)))))); }
};

struct Result {
  std::vector<double> losses;
  HostArray up;
  std::int64_t planned = 0, counted = 0;  // bytes of all transfers, over all steps
  std::string graph;
};

// Where things lie is given as functions of the world, since meshes belong to one.
using Rules = std::function<std::vector<PlacementRule>(World&)>;

Result trained(int devices, const std::string& mesh, const Rules& rules, int steps = 20) {
  World world({.devices = devices, .seed = 5});
  Tower net;
  optim::Adam adam(net.parameters(), {.lr = 2e-3});
  auto step = compile(world.mesh(mesh),
                      [&](Tensor x, Tensor y) {
                        Tensor loss = cross_entropy(net(x), y);
                        adam.step(grad(loss, net.parameters()));
                        return loss;
                      },
                      {.placements = rules(world)});
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  Result out;
  constexpr std::int64_t batch = 12;
  for (int s = 0; s < steps; ++s) {
    HostArray x(TensorType{DType::f64, {batch, 6}}), y(TensorType{DType::i32, {batch}});
    for (double& value : x.data<double>()) value = normal(random);
    for (std::int32_t& label : y.data<std::int32_t>()) label = static_cast<std::int32_t>(random() % 5);
    out.losses.push_back(step(x, y).item());
  }
  out.up = world.read("block2.up.weight");
  for (const auto& transfer : step.plan().transfers) out.planned += steps * transfer.bytes;
  for (const auto& [kind, bytes] : world.counters().sent_bytes) out.counted += bytes;
  out.graph = step.graph_text();
  return out;
}

const Result& on_one_device() {
  static const Result one = trained(1, "", [](World&) { return std::vector<PlacementRule>{}; });
  return one;
}

void expect_same(const Result& other) {
  const Result& one = on_one_device();
  ASSERT_EQ(other.losses.size(), one.losses.size());
  for (std::size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(other.losses[i], one.losses[i], 1e-10 * std::abs(one.losses[i])) << "step " << i;
  for (std::int64_t i = 0; i < one.up.count(); ++i)
    EXPECT_NEAR(other.up.data<double>()[static_cast<std::size_t>(i)], one.up.data<double>()[static_cast<std::size_t>(i)], 1e-9) << "weight " << i;
  EXPECT_EQ(other.planned, other.counted);
}

TEST(Placements, TwoDevicesOnePartEach) {
  Result two = trained(2, "", [](World& w) {
    return std::vector<PlacementRule>{{"{entry,block0,block1}", w.mesh("")}, {"{block2,block3,head}", w.mesh("", {.first = 1})}};
  });
  expect_same(two);
  EXPECT_NE(two.graph.find("transfer("), std::string::npos);
  // One activation there and its gradient back, besides small change: 2 x 12 x 10 doubles, the step's number and the labels' way.
  EXPECT_GE(two.planned, 20 * 2 * 12 * 10 * 8);
  EXPECT_LE(two.planned, 20 * (2 * 12 * 10 * 8 + 200));
}

TEST(Placements, FourStagesOfOneDevice) {
  expect_same(trained(4, "stage=4", [](World&) {
    return std::vector<PlacementRule>{{"{entry,block0}", 0}, {"block1", 1}, {"block2", 2}, {"{block3,head}", 3}};
  }));
}

TEST(Placements, TwoStagesOfTwoDevicesEach) {
  expect_same(trained(4, "stage=2,data=2", [](World&) {
    return std::vector<PlacementRule>{{"{entry,block0,block1}", 0}, {"{block2,block3,head}", 1}};
  }));
}

TEST(Placements, TwoDevicesHandOnToOne) {
  expect_same(trained(3, "data=2", [](World& w) {
    return std::vector<PlacementRule>{{"{entry,block0,block1}", w.mesh("data=2")}, {"{block2,block3,head}", w.mesh("", {.first = 2})}};
  }));
}

TEST(Placements, FourDevicesInASquareHandOnToThree) {
  expect_same(trained(7, "data=2,model=2", [](World& w) {
    return std::vector<PlacementRule>{{"{entry,block0,block1}", w.mesh("data=2,model=2")}, {"{block2,block3,head}", w.mesh("model=3", {.first = 4})}};
  }));
}

TEST(Placements, MeshesThatOverlap) {
  expect_same(trained(3, "data=3", [](World& w) {
    return std::vector<PlacementRule>{{"{entry,block0}", w.mesh("data=2")},
                                      {"block1", w.mesh("model=3")},
                                      {"block2", w.mesh("data=2", {.devices = {2, 0}})},
                                      {"{block3,head}", w.mesh("", {.first = 1})}};
  }));
}

TEST(Placements, OnlyTheMiddleIsPlacedTheRestFollows) {
  expect_same(trained(2, "", [](World& w) { return std::vector<PlacementRule>{{"block1", w.mesh("", {.first = 1})}}; }));
}

// One way to lay something on some devices of a world, by names of axes.
struct Spot {
  std::string mesh;
  MeshPlace place;
  std::vector<std::string> axes;  // of the value's dimensions
};

TEST(Placements, EveryWayFromOneMeshToAnotherKeepsTheTensor) {
  const std::vector<Spot> spots = {
      {"a=2", {}, {"", ""}},           {"a=2", {}, {"a", ""}},          {"a=2", {}, {"", "a"}},
      {"", {.first = 3}, {"", ""}},    {"a=2", {.first = 2}, {"a", ""}}, {"a=3", {.devices = {4, 1, 0}}, {"a", ""}},
      {"a=3", {.devices = {4, 1, 0}}, {"", "a"}}, {"a=2,b=2", {.first = 1}, {"a", "b"}}, {"a=2,b=2", {.first = 1}, {"a+b", ""}}, {"a=2,b=2", {}, {"b", ""}},
  };
  int ways = 0;
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::b8}) {
    for (const Spot& a : spots) {
      for (const Spot& b : spots) {
        if (dtype != DType::f32 && (&a - spots.data() + (&b - spots.data())) % 3 != 0) continue;  // all ways in one type, a third in others
        World world({.devices = 5});
        const DeviceMesh from = world.mesh(a.mesh, a.place), to = world.mesh(b.mesh, b.place);
        if (from.mesh == to.mesh) continue;
        const Shape shape = {5, 3};
        auto move = compile(world.mesh(""), [&](Tensor x) {
          Tensor there = [&] {
            Placed on(from);
            return with_layout(x, a.axes);
          }();
          Placed on(to);
          return with_layout(there, b.axes);
        });
        HostArray x(TensorType{dtype, shape});
        std::int64_t next = 0;
        with_type(dtype, [&]<class T>() {
          for (T& value : x.data<T>()) value = static_cast<T>(dtype == DType::b8 ? next++ % 2 : next++);
        });
        const HostArray y = move(x).value().read();
        ASSERT_EQ(y.type(), x.type());
        EXPECT_EQ(0, std::memcmp(y.bytes(), x.bytes(), static_cast<std::size_t>(x.type().bytes()))) << a.mesh << " to " << b.mesh;
        std::int64_t planned = 0, counted = world.counters().sent_bytes["transfer"];
        for (const auto& transfer : move.plan().transfers) planned += transfer.kind == "transfer" ? transfer.bytes : 0;
        EXPECT_EQ(planned, counted);
        ++ways;
      }
    }
  }
  EXPECT_EQ(ways, 184);
}

TEST(Placements, ScalarsTravel) {
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
  EXPECT_EQ(world.counters().sent_bytes["transfer"], 8) << "device 1 has it already";
}

}  // namespace
}  // namespace karez::tests
