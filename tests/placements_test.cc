// Training equivalence for placements: parts of a model on different meshes train as the model does on one device.
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

namespace karez::tests {
namespace {

// Four blocks with dropout between an entry and a head that are not in a common module.
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
  Block4 block0{*this, "block0", 10}, block1{*this, "block1", 10}, block2{*this, "block2", 10},
      block3{*this, "block3", 10};
  nn::Linear head{*this, "head", 10, 5};
  Tensor operator()(Tensor x) { return head(block3(block2(block1(block0(entry(x)))))); }
};

struct Result {
  std::vector<double> losses;
  HostArray up;
  std::int64_t planned = 0, counted = 0;  // bytes of all transfers, over all steps
  std::string graph;
};

// Placement rules are functions of the world, because meshes belong to a world.
using Rules = std::function<std::vector<PlacementRule>(World&)>;

Result trained(int devices, const std::string& mesh, const Rules& rules, int microbatches = 1,
               const std::vector<LayoutRule>& layouts = {}) {
  constexpr int steps = 20;
  World world({.devices = devices, .seed = 5});
  Tower net;
  optim::Adam adam(net.parameters(), {.lr = 2e-3});
  auto step = compile(world.mesh(mesh),
                      [&](Tensor x, Tensor y) {
                        Tensor loss = cross_entropy(net(x), y);
                        adam.step(grad(loss, net.parameters()));
                        return loss;
                      },
                      {.rules = layouts, .placements = rules(world), .microbatches = microbatches});
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

const Result& single_device_result() {
  static const Result one = trained(1, "", [](World&) { return std::vector<PlacementRule>{}; });
  return one;
}

void expect_same(const Result& other) {
  const Result& one = single_device_result();
  ASSERT_EQ(other.losses.size(), one.losses.size());
  for (std::size_t i = 0; i < one.losses.size(); ++i)
    EXPECT_NEAR(other.losses[i], one.losses[i], 1e-10 * std::abs(one.losses[i])) << "step " << i;
  for (std::int64_t i = 0; i < one.up.count(); ++i)
    EXPECT_NEAR(other.up.data<double>()[static_cast<std::size_t>(i)],
                one.up.data<double>()[static_cast<std::size_t>(i)], 1e-9)
        << "weight " << i;
  EXPECT_EQ(other.planned, other.counted);
}

TEST(Placements, TwoDevicesWithOnePartEach) {
  Result two = trained(2, "", [](World& w) {
    return std::vector<PlacementRule>{{"{entry,block0,block1}", w.mesh("")},
                                      {"{block2,block3,head}", w.mesh("", {.first = 1})}};
  });
  expect_same(two);
  EXPECT_NE(two.graph.find("transfer("), std::string::npos);
  // One activation and its gradient, 2 x 12 x 10 doubles, and small transfers: the step number and the labels.
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

TEST(Placements, TwoDevicesAndThenOne) {
  expect_same(trained(3, "data=2", [](World& w) {
    return std::vector<PlacementRule>{{"{entry,block0,block1}", w.mesh("data=2")},
                                      {"{block2,block3,head}", w.mesh("", {.first = 2})}};
  }));
}

TEST(Placements, FourDevicesInASquareAndThenThree) {
  expect_same(trained(7, "data=2,model=2", [](World& w) {
    return std::vector<PlacementRule>{{"{entry,block0,block1}", w.mesh("data=2,model=2")},
                                      {"{block2,block3,head}", w.mesh("model=3", {.first = 4})}};
  }));
}

TEST(Placements, OverlappingMeshes) {
  expect_same(trained(3, "data=3", [](World& w) {
    return std::vector<PlacementRule>{{"{entry,block0}", w.mesh("data=2")},
                                      {"block1", w.mesh("model=3")},
                                      {"block2", w.mesh("data=2", {.devices = {2, 0}})},
                                      {"{block3,head}", w.mesh("", {.first = 1})}};
  }));
}

TEST(Placements, OnlyTheMiddleHasARule) {
  expect_same(trained(2, "", [](World& w) {
    return std::vector<PlacementRule>{{"block1", w.mesh("", {.first = 1})}};
  }));
}

// Pipelines: placements with micro-batches; a batch of 12 in several parts.
const Rules stages4 = [](World&) {
  return std::vector<PlacementRule>{{"{entry,block0}", 0}, {"block1", 1}, {"block2", 2}, {"{block3,head}", 3}};
};
const Rules stages2 = [](World&) {
  return std::vector<PlacementRule>{{"{entry,block0,block1}", 0}, {"{block2,block3,head}", 1}};
};

TEST(Pipelines, OneStageWithAccumulation) {
  for (int m : {2, 3, 12})
    expect_same(trained(
        1, "", [](World&) { return std::vector<PlacementRule>{}; }, m));
}

TEST(Pipelines, TwoAndFourStages) {
  expect_same(trained(2, "stage=2", stages2, 4));
  expect_same(trained(4, "stage=4", stages4, 6));
  expect_same(trained(4, "stage=4", stages4, 2));
}

TEST(Pipelines, StagesOfSeveralDevices) {
  expect_same(trained(4, "stage=2,data=2", stages2, 4));
  expect_same(trained(
      3, "data=2",
      [](World& w) {
        return std::vector<PlacementRule>{{"{entry,block0,block1}", w.mesh("data=2")},
                                          {"{block2,block3,head}", w.mesh("", {.first = 2})}};
      },
      3));
}

TEST(Pipelines, TensorParallelStagesAlsoWithDataParallelism) {
  const std::vector<LayoutRule> columns_then_rows = {{"block?.up.weight", P("model", nullptr)},
                                                     {"block?.down.weight", P(nullptr, "model")}};
  expect_same(trained(4, "stage=2,model=2", stages2, 4, columns_then_rows));
  expect_same(trained(8, "stage=2,data=2,model=2", stages2, 3, columns_then_rows));
  expect_same(trained(8, "stage=4,model=2", stages4, 4, columns_then_rows));
}

struct Equal : nn::Module {
  Equal() : Module(DType::f32) {}
  nn::Linear s0{*this, "s0", 256, 256}, s1{*this, "s1", 256, 256}, s2{*this, "s2", 256, 256}, s3{*this, "s3", 256, 256};
};

// The 1F1B schedule needs p - i slots on stage i for the values that its backward reads. It may need fewer, because no
// stage waits for weight gradients.
TEST(Pipelines, EqualStagesHaveAtMostTheSlotsOf1F1B) {
  for (int p : {2, 3, 4}) {
    CostTable costs;
    costs.link = {.alpha = 1e-9, .beta = 1e-13};
    World world({.devices = p, .costs = costs});
    Equal net;
    optim::SGD sgd(net.parameters(), {.lr = 0.1});
    std::vector<PlacementRule> rules;
    for (int i = 0; i < p; ++i) rules.push_back({cat("s", i), i});
    auto step = compile(world.mesh({{"stage", p}}),
                        [&](Tensor x) {
                          nn::Linear* layers[] = {&net.s0, &net.s1, &net.s2, &net.s3};
                          for (int i = 0; i < p; ++i) x = tanh((*layers[i])(x));
                          Tensor loss = sum(x);
                          sgd.step(grad(loss, net.parameters()));
                          return loss;
                        },
                        {.placements = rules, .microbatches = 8});
    step.compile({{DType::f32, {512, 256}}});
    const auto& plan = step.plan();
    std::map<int, int> most;  // by device: slots of values that a forward keeps for its backward
    for (const auto& reg : plan.registers) {
      if (!reg.producer.valid() || reg.bytes < 1000) continue;
      auto device = [&](auto actor) { return plan.stream(plan.actor(actor).stream).device.index; };
      for (auto reader : reg.consumers)
        if (reader.valid() && plan.actor(reader).stream == plan.actor(reg.producer).stream &&
            plan.actor(reader).body == plan::BodyKind::compute &&
            plan.actor(reg.producer).body == plan::BodyKind::compute)
          most[device(reader)] = std::max(most[device(reader)], reg.slots);
    }
    for (int i = 0; i + 1 < p; ++i) EXPECT_LE(most[i], p - i) << p << " stages, stage " << i << "\n" << step.summary();
    EXPECT_GE(most[0], 2) << "otherwise stages would wait for each other";
    EXPECT_LE(most[p - 1], 1) << "the last stage runs its backward at once";
    // A product takes one unit of time: a forward has one, a backward two (that of the first stage one).
    runtime::SimulationOptions options{.occupancy = runtime::Occupancy::stream};
    options.duration = [&](plan::ActorId actor, std::int64_t) {
      double products = 0;
      for (const auto& call : plan.actor(actor).calls) products += call.kernel.find("matmul") != std::string::npos;
      return products;
    };
    EXPECT_LE(runtime::simulate(plan, options).makespan, 1.05 * 3.0 * (8 + p - 1)) << p << " stages";
  }
}

// Tensor parallelism within stages: the collectives of a stage and the transfers between stages run in the same order
// on all members for every micro-batch, whatever the durations of acts and messages.
struct TensorParallelPipeline {
  World world;
  bool as_the_first = (world.seed(1), true);  // all instances have equal initial weights
  Tower net;
  optim::SGD sgd{net.parameters(), {.lr = 1e-3}};
  DeviceMesh mesh = world.mesh("stage=2,model=2");
  HostArray x{TensorType{DType::f64, {12, 6}}}, y{TensorType{DType::i32, {12}}};

  explicit TensorParallelPipeline(std::function<void(runtime::SessionOptions&)> session = {})
      : world({.devices = 4, .costs = cheap_links(), .session = std::move(session)}) {
    std::fill(x.data<double>().begin(), x.data<double>().end(), 0.5);
  }
  static CostTable cheap_links() {  // so that the small model is split
    CostTable costs;
    costs.link = {.alpha = 1e-9, .beta = 1e-13};
    return costs;
  }
  auto step() {
    return compile(mesh,
                   [this](Tensor x, Tensor y) {
                     Tensor loss = cross_entropy(net(x), y);
                     sgd.step(grad(loss, net.parameters()));
                     return loss;
                   },
                   {.rules = {{"block?.up.weight", P("model", nullptr)}, {"block?.down.weight", P(nullptr, "model")}},
                    .placements = stages2(world),
                    .microbatches = 4});
  }
};

// 2,000 launches, 10,000 with KAREZ_ALL=1.
TEST(Pipelines, ManyLaunchesWithRandomDelaysKeepOneOrderOnEveryMemberInVirtualTime) {
  const int launches = std::getenv("KAREZ_ALL") != nullptr ? 10'000 : 2'000;
  TensorParallelPipeline pipeline;
  auto step = pipeline.step();
  step(pipeline.x, pipeline.y).wait();
  const auto& plan = step.plan();
  int collectives = 0;
  for (const auto& actor : plan.actors) collectives += actor.collective && actor.collective->kind != "transfer" ? 1 : 0;
  ASSERT_GT(collectives, 4) << step.summary();
  std::mt19937_64 random(11);
  runtime::SimulationOptions options{.launches = launches, .delay = 2};
  options.duration = [&](plan::ActorId, std::int64_t) { return static_cast<double>(random() % 1000) / 500; };
  const runtime::Simulation result = runtime::simulate(plan, options);
  // By communicator and member: the end time and the turn of each act.
  std::map<std::pair<int, int>, std::vector<std::pair<double, int>>> began;
  for (const auto& act : result.acts) {
    const auto& actor = plan.actor(act.actor);
    if (!actor.collective) continue;
    const auto& turns = actor.collective->turns;
    began[{actor.collective->communicator.index, plan.stream(actor.stream).device.index}].emplace_back(
        act.end, turns[static_cast<std::size_t>(act.act) % turns.size()]);
  }
  for (auto& [member, acts] : began) {
    const auto length = plan.communicators[plan::CommunicatorId(member.first)].sequence.size();
    ASSERT_EQ(acts.size(), static_cast<std::size_t>(launches) * length);
    for (std::size_t i = 0; i < acts.size(); ++i)
      ASSERT_EQ(static_cast<std::size_t>(acts[i].second), i % length)
          << "communicator " << member.first << ", device " << member.second;
  }
}

// Checks the order of turns on each member from the workers' event rings, before entries are overwritten.
class CollectiveOrderChecker {
 public:
  explicit CollectiveOrderChecker(const plan::Plan& plan) : plan_(plan) {}

  // Reads the events of the plan that was launched last.
  void read(const std::vector<runtime::EventLog>& logs) {
    next_.resize(logs.size());
    const std::int32_t number = logs[0].events.back().plan;
    for (std::size_t worker = 0; worker < logs.size(); ++worker) {
      const auto& [events, overwritten] = logs[worker];
      ASSERT_LE(overwritten, next_[worker]) << "entries were lost; read them more often";
      for (std::size_t i = next_[worker] - overwritten; i < events.size(); ++i) {
        if (events[i].plan == number && events[i].kind == runtime::EventKind::began) began(events[i]);
      }
      next_[worker] = overwritten + events.size();
    }
  }
  void expect_launches(std::int64_t launches) const {
    EXPECT_GE(seen_.size(), 4u);
    for (const auto& [member, turns] : seen_)
      EXPECT_EQ(turns, launches * length(member.first)) << "communicator " << member.first;
  }

 private:
  using Member = std::pair<int, int>;  // communicator, device

  std::int64_t length(int communicator) const {
    return static_cast<std::int64_t>(plan_.communicators[plan::CommunicatorId(communicator)].sequence.size());
  }
  void began(const runtime::Event& event) {
    const auto& actor = plan_.actor(event.actor);
    if (!actor.collective) return;
    const auto& turns = actor.collective->turns;
    const Member member{actor.collective->communicator.index, plan_.stream(actor.stream).device.index};
    ASSERT_EQ(turns[event.piece % turns.size()], seen_[member]++ % length(member.first))
        << "communicator " << member.first << ", device " << member.second;
  }

  const plan::Plan& plan_;
  std::vector<std::uint64_t> next_;  // by worker: the next entry to read
  std::map<Member, std::int64_t> seen_;
};

// In the engine, with a random delay of each act: 500 launches, 10,000 with KAREZ_ALL=1.
TEST(Pipelines, ManyLaunchesWithRandomDelaysKeepOneOrderOnEveryMemberAndTheirLosses) {
  const int launches = std::getenv("KAREZ_ALL") != nullptr ? 10'000 : 500;
  constexpr int at_once = 50;
  TensorParallelPipeline plain, delayed([](runtime::SessionOptions&options) {
    options.delays = {.max_microseconds = 5, .seed = 1};
    options.events = 1 << 17;  // enough for 50 launches
  });
  auto step = delayed.step(), undelayed = plain.step();
  step.compile({delayed.x.type(), delayed.y.type()});
  CollectiveOrderChecker turns(step.plan());
  std::vector<double> losses, expected;
  for (int launch = 0; launch < launches; launch += at_once) {
    std::vector<Future> futures, others;
    for (int i = 0; i < at_once; ++i) futures.push_back(step(delayed.x, delayed.y));
    for (Future& future : futures) losses.push_back(future.item());
    turns.read(delayed.mesh.world->session.events());
    for (int i = 0; i < at_once; ++i) others.push_back(undelayed(plain.x, plain.y));
    for (Future& other : others) expected.push_back(other.item());
  }
  turns.expect_launches(launches);
  EXPECT_EQ(losses, expected);
  EXPECT_LT(losses.back(), losses.front()) << "the loss decreases";
}

// A layout on some devices of a world, by names of axes.
struct MeshLayout {
  std::string mesh;
  MeshPlace place;
  std::vector<std::string> axes;  // by dimension of the value
};

TEST(Placements, EveryTransferFromOneMeshToAnotherKeepsTheTensor) {
  const std::vector<MeshLayout> spots = {
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
  int ways = 0;
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64, DType::b8}) {
    for (const MeshLayout& a : spots) {
      for (const MeshLayout& b : spots) {
        if (dtype != DType::f32 && (&a - spots.data() + (&b - spots.data())) % 3 != 0)
          continue;  // all pairs for f32, a third for the other types
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
        EXPECT_EQ(0, std::memcmp(y.bytes(), x.bytes(), static_cast<std::size_t>(x.type().bytes())))
            << a.mesh << " to " << b.mesh;
        std::int64_t planned = 0, counted = world.counters().sent_bytes["transfer"];
        for (const auto& transfer : move.plan().transfers) planned += transfer.kind == "transfer" ? transfer.bytes : 0;
        EXPECT_EQ(planned, counted);
        ++ways;
      }
    }
  }
  EXPECT_TRUE(pinned(ways, 184));
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
  EXPECT_EQ(world.counters().sent_bytes["transfer"], 8) << "device 1 has it already";
}

}  // namespace
}  // namespace karez::tests
