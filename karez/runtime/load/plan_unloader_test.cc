// Tests of unloading plans: earlier launches end normally, other plans continue to run, and memory, counters and plan
// numbers are correct.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "karez/base/test_error.h"
#include "karez/data/array_source.h"
#include "karez/plan/test_plan_builder.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"
#include "karez/runtime/test_wait.h"

namespace karez::runtime {
namespace {

const KernelTable& kernels() {
  static const KernelTable table(test_kernels());
  return table;
}

// True if the session's number of plans becomes `plans` within a minute.
bool reaches(Session& session, int plans) {
  return eventually([&] { return session.plans() == plans; });
}

Feeds ones() { return {{"x", {array_source(HostArray::of<float>({4}, {1, 1, 1, 1})), 0}}}; }

// A plan that computes y = x + bias with actors on two workers and a register of `bytes` bytes between them.
Plan two_steps(const std::string& name, double bias, std::int64_t bytes = 16) {
  PlanBuilder s(1, name);
  ActorId in = s.actor("in", 0, 0, BodyKind::input), add = s.actor("add", 1),
          out = s.actor("out", 0, 0, BodyKind::fetch);
  s.start(in);
  RegisterId x = s.edge(in, {add}, 1, bytes), y = s.edge(add, {out}, 1, 16);
  s.done(out);
  s.plan.actors[in].binding = "x";
  s.plan.actors[in].bound = {in_register(x, test_vector)};
  s.plan.actors[in].slices = {Attrs{{"begin", Ints{0}}, {"shape", Ints{4}}}};
  s.call(add, "test.sum", {in_register(x, test_vector)}, {in_register(y, test_vector)}, {{"bias", bias}});
  s.plan.actors[out].binding = "y";
  s.plan.actors[out].bound = {in_register(y, test_vector)};
  return s.plan;
}

float result(const Launch& launch) { return launch.output("y").data<float>()[0]; }

TEST(Unload, LaunchesMadeBeforeUnloadingRunToTheirEnd) {
  Session session({.workers = 2}, kernels());
  for (int round = 0; round < 20; ++round) {
    int plan = session.load(two_steps("first", round));
    EXPECT_EQ(plan, round) << "plan numbers must not be reused";
    std::vector<Launch> launches;
    for (int i = 0; i < 10; ++i) launches.push_back(session.launch(plan, ones()));
    EXPECT_TRUE(session.unload(plan));
    EXPECT_EQ(error_of([&] { session.launch(plan, ones()); }), cat("no plan ", plan, " is loaded in this session"));
    EXPECT_FALSE(session.unload(plan));
    for (const Launch& launch : launches) EXPECT_EQ(result(launch), static_cast<float>(1 + round));
    EXPECT_TRUE(reaches(session, 0));
  }
}

TEST(Unload, OtherPlansRunDuringUnloading) {
  Session session({.workers = 2}, kernels());
  int kept_plan = session.load(two_steps("stays", 0.5));
  std::vector<int> plans;
  for (int i = 0; i < 100; ++i) plans.push_back(session.load(two_steps(cat("p", i), i)));
  std::atomic<bool> over{false};
  std::atomic<int> correct{0}, all{0};
  std::thread other([&] {
    while (!over) ++all, correct += result(session.launch(kept_plan, ones())) == 1.5f;
  });
  for (int i = 0; i < 100; ++i) {
    Launch launch = session.launch(plans[static_cast<std::size_t>(i)], ones());
    session.unload(plans[static_cast<std::size_t>(i)]);
    if (i % 3 == 0) { EXPECT_EQ(result(launch), static_cast<float>(1 + i)); }
  }
  over = true;
  other.join();
  EXPECT_EQ(correct, all);
  EXPECT_TRUE(reaches(session, 1));
  EXPECT_EQ(result(session.launch(kept_plan, ones())), 1.5f);
}

TEST(Unload, RandomGraphsAreUnloadedAfterAllTheirLaunches) {
  for (int workers : {1, 2}) {
    Session session({.workers = workers, .poison = true}, kernels());
    for (unsigned seed = 1; seed <= 60; ++seed) {
      RandomGraph graph(seed, 3);
      int plan = session.load(graph.s.plan);
      std::vector<Launch> launches;
      for (int i = 0; i < 3; ++i) launches.push_back(session.launch(plan, ones()));
      session.unload(plan);
      for (Launch& launch : launches)
        for (const auto& [name, value] : graph.expected) {
          const HostArray actual = launch.output(name);
          for (float y : actual.data<float>()) ASSERT_EQ(y, value) << "seed " << seed << ", output " << name;
        }
    }
    EXPECT_TRUE(reaches(session, 0));
  }
}

TEST(Unload, MemoryIsFreedAndCountersAreKept) {
  constexpr std::int64_t large = 1 << 20;
  Session session({.workers = 2}, kernels());
  Counters first_counters;
  for (int i = 1; i <= 20; ++i) {
    int plan = session.load(two_steps("big", i, large));
    EXPECT_EQ(result(session.launch(plan, ones())), static_cast<float>(1 + i));
    session.unload(plan);
    ASSERT_TRUE(reaches(session, 0));
    const Counters counters = session.counters();
    if (i == 1) first_counters = counters;
    EXPECT_EQ(counters.launches, i);
    EXPECT_EQ(counters.acts, i * 3) << "counts of freed plans must be kept";
    EXPECT_EQ(counters.messages, i * first_counters.messages);
  }
  EXPECT_LE(session.counters().peak_bytes.at("0.0"), large + 1024) << "at most one plan may have memory at a time";
}

TEST(Unload, VariablesRemainAfterUnloading) {
  auto counting = [] {
    PlanBuilder s(1, "counting");
    ActorId n = s.actor("n", 0, 0, BodyKind::state), add = s.actor("add");
    BlockId block = s.block(BlockKind::variable, 0, 4, "n", "f32[1]");
    s.start(n);
    s.edge(n, {add});
    s.done(add);
    s.call(add, "test.count", {in_block(block, View(DType::f32, {1}))}, {in_block(block, View(DType::f32, {1}))});
    return s.plan;
  };
  Session session({.poison = false}, kernels());
  for (int i = 0; i < 5; ++i) {
    int plan = session.load(counting());
    session.launch(plan);
    session.unload(plan);
  }
  EXPECT_EQ(session.read_variable("n", {0, 0, "cpu"}, View(DType::f32, {1})).data<float>()[0], 5);
  EXPECT_TRUE(reaches(session, 0));
}

TEST(Unload, APlanWhoseLaunchFailedIsUnloaded) {
  PlanBuilder s(1, "failing");
  ActorId a = s.actor("a"), b = s.actor("b", 1);
  s.start(a);
  s.edge(a, {b});
  s.done(b);
  s.call(a, "test.fail", {}, {}, {{"at", std::int64_t{1}}});
  Session session({.workers = 2}, kernels());
  int plan = session.load(s.plan);
  Launch launch = session.launch(plan);
  session.unload(plan);
  EXPECT_NE(error_of([&] { launch.wait(); }).find("run 1 failed"), std::string::npos);
  EXPECT_TRUE(reaches(session, 0));
}

// An actor without inputs acts before any launch, and its kernel may write to the plan's memory until it has ended.
TEST(Unload, UnloadingWaitsForARunningAsynchronousKernel) {
  static std::atomic<Completion*> held{nullptr};
  held = nullptr;
  Session session({.workers = 2}, kernels());
  session.add({"test.later", [](const KernelArgs&, Completion done) { held = new Completion(done); }});
  PlanBuilder s(1, "ahead");
  ActorId ahead = s.actor("ahead", 1), end = s.actor("end");
  s.edge(ahead, {end}, 1, 0);
  s.start(end);
  s.done(end);
  s.call(ahead, "test.later", {}, {});
  int plan = session.load(s.plan);
  while (held == nullptr) std::this_thread::yield();
  session.unload(plan);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(session.plans(), 1) << "the plan must not be freed while its kernel runs";
  Completion* done = held;
  (*done)(nullptr);
  delete done;
  EXPECT_TRUE(reaches(session, 0));
}

// A plan that uses a variable keeps it, even after the plan that created the variable has been unloaded and the
// variable has been forgotten.
TEST(Unload, APlanHoldsVariablesThatAnotherPlanCreated) {
  constexpr std::int64_t large = 1 << 20;
  auto counting = [] {
    PlanBuilder s(1, "counting");
    ActorId add = s.actor("add");
    BlockId block = s.block(BlockKind::variable, 0, large, "n", "f32[1]");
    s.start(add);
    s.done(add);
    s.call(add, "test.count", {in_block(block, View(DType::f32, {1}))}, {in_block(block, View(DType::f32, {1}))});
    return s.plan;
  };
  Session session({.workers = 1, .poison = false}, kernels());
  int creator = session.load(counting()), other_user = session.load(counting());
  EXPECT_LT(session.counters().peak_bytes.at("0.0"), 2 * large) << "both plans must share one variable";
  session.unload(creator);
  ASSERT_TRUE(reaches(session, 1));
  session.forget_variable("n");
  session.load(counting());  // with a new variable
  EXPECT_GE(session.counters().peak_bytes.at("0.0"), 2 * large) << "the variable of the other plan must still exist";
  session.launch(other_user).wait();
  EXPECT_EQ(session.read_variable("n", {0, 0, "cpu"}, View(DType::f32, {1})).data<float>()[0], 0)
      << "the other plan must increment its own variable, not the new one";
}

// Worker 0 is kept busy while a plan with a ready actor is loaded and unloaded, so the actor must never act.
TEST(Unload, AnActorThatWasReadyWhenItsPlanWasUnloadedDoesNotAct) {
  std::atomic<bool> entered{false}, open{false};
  KernelTable table({test_row("hold", [&](const CallSpec&) -> PreparedKernel {
    return [&](const KernelArgs&) {
      entered = true;
      while (!open) std::this_thread::yield();
    };
  })});
  Session session({.workers = 1}, table);
  auto make_eager_plan = [](bool holds) {  // its first actor needs no token
    PlanBuilder s(1, "ahead");
    ActorId eager = s.actor("eager"), end = s.actor("end");
    s.edge(eager, {end});
    s.start(end);
    s.done(end);
    if (holds) s.call(eager, "test.hold", {}, {});
    return s.plan;
  };
  session.load(make_eager_plan(true));
  while (!entered) std::this_thread::yield();
  int unloaded = session.load(make_eager_plan(false));
  session.unload(unloaded);
  open = true;
  session.wait_graph();                                        // worker 0 has opened the mail
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // long enough for the actor to act
  const auto logs = session.events();
  for (const Event& event : logs[0].events) EXPECT_NE(event.plan, unloaded) << name_of(event.kind);
  EXPECT_TRUE(reaches(session, 1));
}

TEST(Unload, AReloadForgetsPlansThatAreBeingUnloaded) {
  Session session({.workers = 2}, kernels());
  int plan = session.load(two_steps("p", 0));
  session.launch(plan, ones());
  session.unload(plan);
  session.reload();
  EXPECT_EQ(session.plans(), 0);
  int next = session.load(two_steps("q", 2));
  EXPECT_EQ(next, plan + 1);
  EXPECT_EQ(result(session.launch(next, ones())), 3);
}

TEST(WaitGraph, ManyQueriesDoNotLeakMemory) {
  Session session({.workers = 2}, kernels());
  int plan = session.load(two_steps("p", 0));
  session.launch(plan, ones()).wait();
  for (int i = 0; i < 50; ++i) session.wait_graph();
  const auto before = static_cast<std::int64_t>(mallinfo2().uordblks);
  for (int i = 0; i < 2000; ++i) session.wait_graph();
  EXPECT_LT(static_cast<std::int64_t>(mallinfo2().uordblks) - before, 64 << 10);
}

}  // namespace
}  // namespace karez::runtime
