// Tests of training equivalence for pipelines, of their slots, and of the order of collectives in their stages.
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

// Pipelines are placements with micro-batches. Here a batch of 12 is divided into 2 to 12 of them.
const Rules stages4 = [](World&) {
  return std::vector<PlacementRule>{{"{entry,block0}", 0}, {"block1", 1}, {"block2", 2}, {"{block3,head}", 3}};
};
const Rules stages2 = [](World&) {
  return std::vector<PlacementRule>{{"{entry,block0,block1}", 0}, {"{block2,block3,head}", 1}};
};

TEST(Pipelines, OneStageAccumulatesGradients) {
  for (int m : {2, 3, 12})
    expect_same(train(
        1, "", [](World&) { return std::vector<PlacementRule>{}; }, m));
}

TEST(Pipelines, TwoAndFourStagesTrainTheSame) {
  expect_same(train(2, "stage=2", stages2, 4));
  expect_same(train(4, "stage=4", stages4, 6));
  expect_same(train(4, "stage=4", stages4, 2));
}

TEST(Pipelines, StagesMayHaveSeveralDevices) {
  expect_same(train(4, "stage=2,data=2", stages2, 4));
  expect_same(train(
      3, "data=2",
      [](World& w) {
        return std::vector<PlacementRule>{{"{entry,block0,block1}", w.mesh("data=2")},
                                          {"{block2,block3,head}", w.mesh("", {.first = 2})}};
      },
      3));
}

TEST(Pipelines, StagesMayCombineTensorAndDataParallelism) {
  const std::vector<LayoutRule> columns_then_rows = {{"block?.up.weight", P("model", nullptr)},
                                                     {"block?.down.weight", P(nullptr, "model")}};
  expect_same(train(4, "stage=2,model=2", stages2, 4, columns_then_rows));
  expect_same(train(8, "stage=2,data=2,model=2", stages2, 3, columns_then_rows));
  expect_same(train(8, "stage=4,model=2", stages4, 4, columns_then_rows));
}

struct Equal : nn::Module {
  Equal() : Module(DType::f32) {}
  nn::Linear s0{*this, "s0", 256, 256}, s1{*this, "s1", 256, 256}, s2{*this, "s2", 256, 256}, s3{*this, "s3", 256, 256};
};

// The 1F1B schedule needs p - i slots on stage i for the values that the backward pass reads. A plan may need fewer,
// because no stage waits for weight gradients.
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
    std::map<int, int> max_slots;  // by device: slots of values that the forward pass keeps for the backward pass
    for (const auto& reg : plan.registers) {
      if (!reg.producer.valid() || reg.bytes < 1000) continue;
      auto device = [&](auto actor) { return plan.stream(plan.actor(actor).stream).device.index; };
      for (auto reader : reg.consumers)
        if (reader.valid() && plan.actor(reader).stream == plan.actor(reg.producer).stream &&
            plan.actor(reader).body == plan::BodyKind::compute &&
            plan.actor(reg.producer).body == plan::BodyKind::compute)
          max_slots[device(reader)] = std::max(max_slots[device(reader)], reg.slots);
    }
    for (int i = 0; i + 1 < p; ++i)
      EXPECT_LE(max_slots[i], p - i) << p << " stages, stage " << i << "\n" << step.summary();
    EXPECT_GE(max_slots[0], 2) << "the first stage needs a second slot, so that the stages do not wait for each other";
    EXPECT_LE(max_slots[p - 1], 1)
        << "the last stage needs only one slot, because it runs its backward pass immediately";
    // A matmul takes one unit of time. The forward pass of a stage has one. The backward pass has two, but only one in
    // the first stage.
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
  bool is_seeded = (world.seed(1), true);  // all instances have equal initial weights
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

// Runs 2,000 launches, or 10,000 with KAREZ_ALL=1.
TEST(Pipelines, ManyLaunchesWithRandomDelaysKeepTheOrderOfCollectivesInVirtualTime) {
  const int launches = std::getenv("KAREZ_ALL") != nullptr ? 10'000 : 2'000;
  TensorParallelPipeline pipeline;
  auto step = pipeline.step();
  step(pipeline.x, pipeline.y).wait();
  const auto& plan = step.plan();
  int collectives = 0;
  for (const auto& actor : plan.actors)
    collectives += actor.collective && actor.collective->kind != CollectiveKind::transfer ? 1 : 0;
  ASSERT_GT(collectives, 4) << step.summary();
  std::mt19937_64 random(11);
  runtime::SimulationOptions options{.launches = launches, .delay = 2};
  options.duration = [&](plan::ActorId, std::int64_t) { return static_cast<double>(random() % 1000) / 500; };
  const runtime::Simulation result = runtime::simulate(plan, options);
  // The end time and the turn of each act, by communicator and member.
  std::map<std::pair<int, int>, std::vector<std::pair<double, int>>> ended;
  for (const auto& act : result.acts) {
    const auto& actor = plan.actor(act.actor);
    if (!actor.collective) continue;
    const auto& turns = actor.collective->turns;
    ended[{actor.collective->communicator.index, plan.stream(actor.stream).device.index}].emplace_back(
        act.end, turns[static_cast<std::size_t>(act.act) % turns.size()]);
  }
  for (auto& [member, acts] : ended) {
    const auto length = plan.communicators[plan::CommunicatorId(member.first)].sequence.size();
    ASSERT_EQ(acts.size(), static_cast<std::size_t>(launches) * length);
    for (std::size_t i = 0; i < acts.size(); ++i)
      ASSERT_EQ(static_cast<std::size_t>(acts[i].second), i % length)
          << "communicator " << member.first << ", device " << member.second;
  }
}

// Checks the order of turns on each member in the workers' event rings, before entries are overwritten.
class CollectiveOrderChecker {
 public:
  explicit CollectiveOrderChecker(const plan::Plan& plan) : plan_(plan) {}

  // Reads the events of the plan that was launched last.
  void read(const std::vector<runtime::EventLog>& logs) {
    next_.resize(logs.size());
    const std::int32_t number = logs[0].events.back().plan;
    for (std::size_t worker = 0; worker < logs.size(); ++worker) {
      const auto& events = logs[worker].events;
      const std::size_t overwritten = logs[worker].overwritten;
      ASSERT_LE(overwritten, next_[worker]) << "events were overwritten before this test read them";
      for (std::size_t i = next_[worker] - overwritten; i < events.size(); ++i) {
        if (events[i].plan == number && events[i].kind == runtime::EventKind::began) began(events[i]);
      }
      next_[worker] = overwritten + events.size();
    }
  }
  void expect_launches(std::int64_t launches) const {
    EXPECT_GE(acts_seen_.size(), 4u);
    for (const auto& [member, turns] : acts_seen_)
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
    ASSERT_EQ(turns[event.piece % turns.size()], acts_seen_[member]++ % length(member.first))
        << "communicator " << member.first << ", device " << member.second;
  }

  const plan::Plan& plan_;
  std::vector<std::uint64_t> next_;  // by worker: the next entry to read
  std::map<Member, std::int64_t> acts_seen_;
};

// Runs 500 launches in the engine, or 10,000 with KAREZ_ALL=1, with a random delay of each act.
TEST(Pipelines, ManyLaunchesWithRandomDelaysKeepTheOrderOfCollectivesAndTheLosses) {
  const int launches = std::getenv("KAREZ_ALL") != nullptr ? 10'000 : 500;
  constexpr int batch_of_launches = 50;
  TensorParallelPipeline undelayed_pipeline, delayed_pipeline([](runtime::SessionOptions&options) {
    options.delays = {.max_microseconds = 5, .seed = 1};
    options.events = 1 << 17;  // enough for 50 launches
  });
  auto step = delayed_pipeline.step(), undelayed = undelayed_pipeline.step();
  step.compile({delayed_pipeline.x.type(), delayed_pipeline.y.type()});
  CollectiveOrderChecker turns(step.plan());
  std::vector<double> losses, expected;
  for (int launch = 0; launch < launches; launch += batch_of_launches) {
    std::vector<Future> futures, undelayed_futures;
    for (int i = 0; i < batch_of_launches; ++i) futures.push_back(step(delayed_pipeline.x, delayed_pipeline.y));
    for (Future& future : futures) losses.push_back(future.item());
    turns.read(delayed_pipeline.mesh.world->session.events());
    for (int i = 0; i < batch_of_launches; ++i)
      undelayed_futures.push_back(undelayed(undelayed_pipeline.x, undelayed_pipeline.y));
    for (Future& future : undelayed_futures) expected.push_back(future.item());
  }
  turns.expect_launches(launches);
  EXPECT_EQ(losses, expected);
  EXPECT_LT(losses.back(), losses.front()) << "the loss must decrease";
}

}  // namespace
}  // namespace karez::tests
