// Tests of results that stay on their devices: how they are read, passed to later launches before they are computed,
// counted, and rejected if their layout does not match.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "karez/base/test_error.h"
#include "karez/base/text.h"
#include "karez/data/array_source.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"
#include "karez/runtime/test_wait.h"

namespace karez::runtime {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> to_vector(const HostArray& array) {
  return {array.data<float>().begin(), array.data<float>().end()};
}

struct Step {
  std::string name = "add", kernel = "test.sum";
  Attrs attrs = {{"bias", 1.0}};
  std::vector<std::pair<int, int>> parts = {{0, 3}, {3, 5}};  // by device: rows of [5, 2]
  int timers = 0;                                             // on this many devices a timer must tick before the step
};

// y = x + 1 on [5, 2], with some rows on each device.
Plan step(const Step& step_options = {}) {
  PlanBuilder s(static_cast<int>(step_options.parts.size()), step_options.name);
  for (int d = 0; d < static_cast<int>(step_options.parts.size()); ++d) {
    const auto [begin, end] = step_options.parts[static_cast<std::size_t>(d)];
    const View rows(DType::f32, {end - begin, 2});
    ActorId in = s.actor(cat("in.", d), d, d, BodyKind::input), work = s.actor(cat("work.", d), d, d),
            out = s.actor(cat("out.", d), d, d, BodyKind::fetch);
    s.start(in);
    RegisterId x = s.edge(in, {work}, 2, rows.bytes()), y = s.edge(work, {out}, 2, rows.bytes());
    s.done(out);
    s.call(work, step_options.kernel, {in_register(x, rows)}, {in_register(y, rows)}, step_options.attrs);
    s.plan.actors[in].binding = "x", s.plan.actors[out].binding = "y";
    s.plan.actors[in].bound = {in_register(x, rows)}, s.plan.actors[out].bound = {in_register(y, rows)};
    for (ActorId a : {in, out}) s.plan.actors[a].slices = {Attrs{{"begin", Ints{begin, 0}}, {"shape", Ints{5, 2}}}};
    if (d >= step_options.timers) continue;
    ActorId wait = s.actor(cat("wait.", d), d, d);
    s.start(wait);
    s.call(wait, "test.timer", {}, {});
    s.edge(wait, {work});
  }
  return s.plan;
}

// A source that counts its reads.
struct CountingSource : Source {
  mutable std::atomic<int> reads{0};
  TensorType type() const override { return {DType::f32, {5, 2}}; }
  void read(std::int64_t, std::span<const std::int64_t> begin, const TensorRef& out) const override {
    ++reads;
    for (std::int64_t i = 0; i < out.count(); ++i) test_data(out.data)[i] = static_cast<float>(2 * begin[0] + i);
  }
};

struct Fixture {
  KernelTable table{test_kernels()};
  ManualTimer timer;
  std::shared_ptr<CountingSource> x = std::make_shared<CountingSource>();
  Session session;
  explicit Fixture(SessionOptions options = {.workers = 2, .poison = true}) : session(options, table) {
    session.add(timer.kernel());
  }
  Feeds feeds() const { return {{"x", Feed{x, 0}}}; }
};

TEST(DeviceValue, AResultCanBeReadAsAWholeOrPartByPart) {
  Fixture f;
  const Result y = f.session.launch(f.session.load(step()), f.feeds()).result("y");
  EXPECT_EQ(y.read().type(), (TensorType{DType::f32, {5, 2}}));
  EXPECT_THAT(to_vector(y.read()), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  const std::vector<HostArray> parts = y.local();
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_THAT(to_vector(parts[0]), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(to_vector(parts[1]), ElementsAre(7, 8, 9, 10));
  EXPECT_TRUE(y.done());
}

TEST(DeviceValue, ReplicasAreReadOnceAndBothAreKept) {
  Fixture f;
  const Plan plan = step({.parts = {{0, 5}, {0, 5}}});
  const Result y = f.session.launch(f.session.load(plan), f.feeds()).result("y");
  EXPECT_THAT(to_vector(y.read()), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_EQ(y.local().size(), 2u);
  EXPECT_EQ(f.session.held_bytes(), 2 * 40);
}

TEST(DeviceValue, EachOfAThousandLaunchesTakesTheResultOfThePreviousOne) {
  for (int workers : {1, 2}) {
    Fixture f({.workers = workers, .in_flight = 4});
    const int plan = f.session.load(step());
    Result y = f.session.launch(plan, f.feeds()).result("y");
    for (int i = 0; i < 1000; ++i) y = f.session.launch(plan, {}, {{"x", y}}).result("y");
    EXPECT_THAT(to_vector(y.read()), ElementsAre(1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010));
    EXPECT_EQ(f.x->reads, 2) << "only the first launch may read the source, once on each device";
    EXPECT_EQ(f.session.held_bytes(), 40) << "only the last result may be held";
  }
}

TEST(DeviceValue, ALaunchWaitsForItsInputResultWithoutBlockingTheCaller) {
  Fixture f;
  const int make = f.session.load(step({.name = "make", .timers = 1})),
            take = f.session.load(step({.name = "take", .timers = 1}));
  const Result y = f.session.launch(make, f.feeds()).result("y");
  const Result z = f.session.launch(take, {}, {{"x", y}}).result("y");
  // This launch takes no result, but launches of one plan run in order.
  const Launch later = f.session.launch(take, f.feeds());
  EXPECT_TRUE(f.timer.active(1));
  pause();
  EXPECT_TRUE(f.timer.active(1)) << "only the first launch may begin";
  EXPECT_FALSE(y.done());
  f.timer.tick();
  EXPECT_THAT(to_vector(y.read()), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_FALSE(z.done());
  EXPECT_TRUE(f.timer.active(1)) << "launches of one plan must run their start actors one after another";
  f.timer.tick();
  EXPECT_THAT(to_vector(z.read()), ElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_TRUE(f.timer.active(1));
  f.timer.tick();
  EXPECT_THAT(to_vector(later.output("y")), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
}

TEST(DeviceValue, APlanOnOtherDevicesDoesNotWaitForAnUnrelatedResult) {
  Fixture f;
  Plan plan_elsewhere = step({.name = "other"});
  for (PlanDevice& device : plan_elsewhere.devices) device.device += 2;
  const int make = f.session.load(step({.name = "make", .timers = 1})), other = f.session.load(plan_elsewhere);
  const Result y = f.session.launch(make, f.feeds()).result("y");
  EXPECT_THAT(to_vector(f.session.launch(other, f.feeds()).output("y")), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10))
      << "expected the values while the first launch runs";
  EXPECT_FALSE(y.done());
  EXPECT_TRUE(f.timer.active(1));
  f.timer.tick();
  y.wait();
}

TEST(DeviceValue, BytesAreFreedWithTheLastHandleEvenWhileALaunchRuns) {
  Fixture f;
  const int make = f.session.load(step({.timers = 1})), take = f.session.load(step({.name = "take"}));
  EXPECT_EQ(f.session.held_bytes(), 0);
  Result first_result = f.session.launch(take, f.feeds()).result("y");
  first_result.wait();
  EXPECT_EQ(f.session.held_bytes(), 40);
  std::optional<Launch> first = f.session.launch(make, f.feeds());
  EXPECT_EQ(f.session.held_bytes(), 80) << "a running launch must hold the bytes that it will write";
  first_result = {};
  EXPECT_EQ(f.session.held_bytes(), 40) << "the bytes must be freed while another launch is in flight";
  Result second = f.session.launch(take, {}, {{"x", first->result("y")}}).result("y");
  first.reset();
  EXPECT_EQ(f.session.held_bytes(), 80) << "the first result has no handle, but a launch will read it";
  EXPECT_TRUE(f.timer.active(1));
  f.timer.tick();
  second.wait();
  EXPECT_EQ(f.session.held_bytes(), 40);
  EXPECT_EQ(f.session.counters().held_bytes.at("0.0"), 24);
  EXPECT_EQ(f.session.counters().held_bytes.at("0.1"), 16);
  const auto planned = f.session.counters().peak_bytes;
  second = {};
  EXPECT_EQ(f.session.held_bytes(), 0);
  EXPECT_EQ(f.session.counters().peak_bytes, planned) << "held bytes must be counted separately";
}

TEST(DeviceValue, AFailedLaunchFailsTheLaunchesThatTakeItsResult) {
  Fixture f;
  const int good = f.session.load(step()),
            bad = f.session.load(
                step({.name = "bad", .kernel = "test.fail", .attrs = {{"at", std::int64_t{1}}}, .timers = 2}));
  const Result before = f.session.launch(good, f.feeds()).result("y");
  before.wait();
  const Result y = f.session.launch(bad, f.feeds()).result("y");
  const Result z = f.session.launch(good, {}, {{"x", y}}).result("y");
  EXPECT_TRUE(f.timer.active(2));
  f.timer.tick();
  EXPECT_THAT(error_of([&] { z.read(); }),
              AllOf(HasSubstr("launch 3 did not run, because an earlier launch failed: "), HasSubstr("run 1 failed")));
  EXPECT_THAT(error_of([&] { y.read(); }), HasSubstr("run 1 failed [launch 2, actor 'work."));
  EXPECT_THAT(error_of([&] { y.local(); }), HasSubstr("run 1 failed"));
  EXPECT_THAT(to_vector(before.read()), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)) << "earlier results must be kept";
  f.session.reload();
  const int again = f.session.load(step());
  EXPECT_THAT(error_of([&] {
                f.session.launch(again, {}, {{"x", y}});
              }),
              AllOf(HasSubstr("input 'x' is a result of a launch that failed: "), HasSubstr("run 1 failed")));
  EXPECT_THAT(error_of([&] {
                f.session.launch(again, {}, {{"x", z}});
              }),
              HasSubstr("input 'x' is a result of a launch that failed: launch 3"));
  EXPECT_THAT(to_vector(f.session.launch(again, {}, {{"x", before}}).output("y")),
              ElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST(DeviceValue, MismatchedResultsAreRejected) {
  Fixture f, other;
  const int plan = f.session.load(step()), half = f.session.load(step({.name = "half", .parts = {{0, 2}, {2, 5}}}));
  const Result y = f.session.launch(plan, f.feeds()).result("y");
  EXPECT_EQ(error_of([&] {
              f.session.launch(half, {}, {{"x", y}});
            }),
            "input 'x' is read as [0:2, 0:2] on device 0.0, [2:5, 0:2] on device 0.1, but is fed with a result "
            "stored as [0:3, 0:2] on device 0.0, [3:5, 0:2] on device 0.1 (in.0 at sketch.cc:1)");
  EXPECT_EQ(error_of([&] { f.session.launch(plan, f.feeds(), {{"x", y}}); }), "input 'x' is fed twice");
  EXPECT_EQ(error_of([&] { f.session.launch(plan, {}, {{"x", Result()}}); }), "input 'x' is fed with a null result");
  EXPECT_THAT(error_of([&] { f.session.launch(plan, {}, {{"z", y}}); }), HasSubstr("plan 'add' has no input 'z'"));
  EXPECT_EQ(error_of([&] {
              other.session.launch(other.session.load(step()), {}, {{"x", y}});
            }),
            "input 'x' is fed with a result of another session");
  Plan doubles = step();
  for (Actor& a : doubles.actors)
    if (!a.slices.empty()) a.slices[0].set("shape", Ints{6, 2});
  EXPECT_THAT(error_of([&] { f.session.load(doubles); }), HasSubstr("the fetches of 'y' cover 10 of its 12 elements"));
  EXPECT_THAT(error_of([&] { f.session.launch(plan, f.feeds()).result(1); }),
              HasSubstr("has 1 results; there is no result 1"));
}

TEST(DeviceValue, ResultsOfAnUnloadedPlanRemain) {
  Fixture f;
  const int make = f.session.load(step({.timers = 1})), take = f.session.load(step({.name = "take"}));
  const Result y = f.session.launch(make, f.feeds()).result("y");
  const Result z = f.session.launch(take, {}, {{"x", y}}).result("y");
  f.session.unload(make);
  f.session.unload(take);
  EXPECT_TRUE(f.timer.active(1));
  f.timer.tick();
  ASSERT_TRUE(eventually([&] { return f.session.plans() == 0; }));
  EXPECT_THAT(to_vector(y.read()), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_THAT(to_vector(z.read()), ElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST(DeviceValue, AResultMayOutliveItsSession) {
  Result y;  // destroyed after its session
  Fixture f;
  y = f.session.launch(f.session.load(step()), f.feeds()).result("y");
}

}  // namespace
}  // namespace karez::runtime
