// Tests of concurrent launches of one plan, of plans that share variables and of unrelated plans, of the limit of
// launches in flight, of failures, and of variable locks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <thread>

#include "karez/base/test_error.h"
#include "karez/data/array_source.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"
#include "karez/runtime/test_wait.h"

namespace karez::runtime {
namespace {

const View scalar(DType::f32, {1});
const PlanDevice device{0, 0, "cpu"};

// A plan with an act that runs for one tick of the timer, after which every variable is read or, if `writes`,
// incremented.
Plan timer_plan(const std::string& name, const std::vector<std::string>& variables, bool writes) {
  PlanBuilder s(1, name);
  ActorId wait = s.actor("wait");
  if (variables.empty()) s.start(wait);
  for (const std::string& v : variables) {
    ActorId state = s.actor("state", 0, 0, BodyKind::state);
    BlockId block = s.block(BlockKind::variable, 0, 4, v, "f32[1]");
    s.start(state);
    ActorId use = s.actor("use " + v);
    s.edge(state, {wait, use});
    s.edge(wait, {use});
    s.done(use);
    if (writes) s.call(use, "test.count", {in_block(block, scalar)}, {in_block(block, scalar)});
  }
  if (variables.empty()) s.done(wait);
  s.call(wait, "test.timer", {}, {});
  return s.plan;
}

struct Fixture {
  KernelTable table;
  ManualTimer timer;
  Session session;
  explicit Fixture(SessionOptions options = {.workers = 2}) : table(test_kernels()), session(options, table) {
    session.add(timer.kernel());
  }
  int load(const std::string& name, const std::vector<std::string>& variables, bool writes) {
    return session.load(timer_plan(name, variables, writes));
  }
  float value(const std::string& name) { return session.read_variable(name, device, scalar).data<float>()[0]; }
  void zero(const std::string& name) { session.write_variable(name, device, scalar, HostArray::of<float>({1}, {0})); }
};

TEST(Launches, LaunchesOfUnrelatedPlansOverlap) {
  Fixture f;
  int first_plan = f.load("one", {"a"}, true), second_plan = f.load("two", {"b"}, true);
  Launch first = f.session.launch(first_plan), second = f.session.launch(second_plan);
  EXPECT_TRUE(f.timer.active(2)) << f.session.wait_graph();
  f.timer.tick();
  first.wait(), second.wait();
}

TEST(Launches, LaunchesOfPlansThatReadOneVariableOverlapAndAWriterWaitsForBoth) {
  Fixture f;
  int first_plan = f.load("one", {"a"}, false), second_plan = f.load("two", {"a", "b"}, false),
      writer = f.load("writer", {"a"}, true);
  f.zero("a");
  std::vector<Launch> all = {f.session.launch(first_plan), f.session.launch(second_plan), f.session.launch(writer),
                             f.session.launch(first_plan)};
  EXPECT_TRUE(f.timer.active(2));
  pause();
  EXPECT_TRUE(f.timer.active(2)) << "the writer and the launch after it must wait";
  f.timer.tick();
  all[0].wait(), all[1].wait();
  EXPECT_TRUE(f.timer.active(1));
  EXPECT_FALSE(all[2].done());
  f.timer.tick();
  all[2].wait();
  EXPECT_TRUE(f.timer.active(1)) << "the last launch must wait for the writer";
  f.timer.tick();
  all[3].wait();
  EXPECT_EQ(f.value("a"), 1);
}

// A plan that copies one variable to another after one tick of the timer.
Plan copying_plan(const std::string& name, const std::string& from, const std::string& to) {
  PlanBuilder s(1, name);
  ActorId state = s.actor("state", 0, 0, BodyKind::state), wait = s.actor("wait"), copy = s.actor("copy");
  BlockId source = s.block(BlockKind::variable, 0, 4, from, "f32[1]"),
          target = s.block(BlockKind::variable, 0, 4, to, "f32[1]");
  s.start(state);
  s.edge(state, {wait, copy});
  s.edge(wait, {copy});
  s.done(copy);
  s.call(wait, "test.timer", {}, {});
  s.call(copy, "test.sum", {in_block(source, scalar)}, {in_block(target, scalar)});
  return s.plan;
}

TEST(Launches, VariablesThatACallReadsAreDistinguishedFromThoseThatItWrites) {
  Fixture f;
  int b = f.session.load(copying_plan("b", "a", "b")), c = f.session.load(copying_plan("c", "a", "c")),
      d = f.session.load(copying_plan("d", "b", "d"));
  f.session.write_variable("a", device, scalar, HostArray::of<float>({1}, {5}));
  Launch first = f.session.launch(b), second = f.session.launch(c), third = f.session.launch(d);
  EXPECT_TRUE(f.timer.active(2)) << "the first two launches both read a";
  pause();
  EXPECT_TRUE(f.timer.active(2)) << "the third launch must wait, because it reads what the first launch writes";
  f.timer.tick();
  first.wait(), second.wait();
  EXPECT_TRUE(f.timer.active(1));
  f.timer.tick();
  third.wait();
  EXPECT_EQ(f.value("d"), 5);
}

// Both launches write the variable, but acts of the second launch that do not depend on it run concurrently with acts
// of the first.
TEST(Launches, LaunchesOfOnePlanOverlapEvenIfTheyWriteAVariable) {
  Fixture f;
  PlanBuilder s(1, "one");
  ActorId state = s.actor("state", 0, 0, BodyKind::state), ahead = s.actor("ahead", 1), count = s.actor("count");
  BlockId v = s.block(BlockKind::variable, 0, 4, "v", "f32[1]");
  s.start(state), s.start(ahead);
  s.edge(state, {count});
  s.edge(ahead, {count}, 2);
  ActorId after = s.actor("after", 0);
  s.edge(count, {after});
  s.done(after);
  s.call(ahead, "test.ahead", {}, {});
  s.call(count, "test.count", {in_block(v, scalar)}, {in_block(v, scalar)});
  s.call(after, "test.timer", {}, {});
  std::atomic<int> ahead_acts{0};
  f.session.add({"test.ahead", [&](const KernelArgs&, const Completion& done) {
                   ++ahead_acts;
                   done();
                 }});
  int plan = f.session.load(s.plan);
  f.zero("v");
  Launch first = f.session.launch(plan), second = f.session.launch(plan);
  EXPECT_TRUE(f.timer.active(1));
  EXPECT_TRUE(eventually([&] { return ahead_acts == 2; }))
      << "an act of the second launch must run during the first launch";
  f.timer.tick();
  first.wait();
  EXPECT_TRUE(f.timer.active(1));
  f.timer.tick();
  second.wait();
  EXPECT_EQ(f.value("v"), 2);
}

TEST(Launches, AWaitingLaunchDoesNotDelayUnrelatedLaunches) {
  Fixture f;
  int a = f.load("a", {"a"}, true), also_a = f.load("also a", {"a"}, true), b = f.load("b", {"b"}, true);
  Launch first = f.session.launch(a), waiting = f.session.launch(also_a), unrelated = f.session.launch(b);
  EXPECT_TRUE(f.timer.active(2));
  f.timer.tick();
  first.wait(), unrelated.wait();
  EXPECT_FALSE(waiting.done());
  EXPECT_TRUE(f.timer.active(1));
  f.timer.tick();
  waiting.wait();
}

// The start actors of the next launch act during the previous launch, and the launches end in order.
TEST(Launches, LaunchesOfOnePlanFillSlotsAheadAndRunInOrder) {
  Fixture f({.workers = 2, .in_flight = 8});
  PlanBuilder s(1, "ahead");
  ActorId in = s.actor("in", 0), work = s.actor("work", 1), out = s.actor("out", 1, 0, BodyKind::fetch);
  s.start(in);
  RegisterId x = s.edge(in, {work}, 2, 4), y = s.edge(work, {out}, 1, 4);
  s.done(out);
  s.call(in, "test.timer", {}, {});
  s.call(work, "test.relu", {in_register(x, scalar)}, {in_register(y, scalar)});
  s.plan.actors[out].binding = "y";
  s.plan.actors[out].bound = {in_register(y, scalar)};
  int plan = f.session.load(s.plan);
  std::vector<Launch> launches;
  for (int i = 0; i < 5; ++i) launches.push_back(f.session.launch(plan));
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(f.timer.active(1));
    EXPECT_FALSE(launches[static_cast<std::size_t>(i)].done());
    f.timer.tick();
    ASSERT_TRUE(eventually([&] { return launches[static_cast<std::size_t>(i)].done(); }))
        << i << f.session.wait_graph();
  }
}

TEST(Launches, AThirdLaunchWaitsIfAtMostTwoMayBeInFlight) {
  Fixture f({.workers = 2, .in_flight = 2});
  int a = f.load("a", {"a"}, true), b = f.load("b", {"b"}, true);
  std::vector<Launch> running = {f.session.launch(a), f.session.launch(b)};
  auto third = std::async(std::launch::async, [&] { return f.session.launch(b); });
  EXPECT_EQ(third.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  EXPECT_TRUE(f.timer.active(2));
  f.timer.tick();
  Launch last = third.get();
  EXPECT_TRUE(f.timer.active(1));
  f.timer.tick();
  last.wait();
  EXPECT_EQ(error_of([] {
              KernelTable none({});
              Session({.in_flight = 0}, none);
            }),
            "session: in_flight must be from 1 to 1024, got 0");
}

TEST(Launches, IfTheThirdOfEightLaunchesFailsAllLaterLaunchesReportItsError) {
  KernelTable table(test_kernels());
  std::mutex gate;
  gate.lock();
  std::vector<std::thread> waiting;  // each thread ends one act of the first actor when the gate opens
  Session session({.workers = 2, .in_flight = 8}, table);
  PlanBuilder s(1, "eight");
  ActorId a = s.actor("a", 0), b = s.actor("b", 1), c = s.actor("c", 0);
  s.start(a);
  s.edge(a, {b}, 2);
  s.edge(b, {c}, 2);
  s.done(c);
  session.add({"test.gate", [&](const KernelArgs&, const Completion& done) {
                 waiting.emplace_back([&gate, done] {
                   std::lock_guard wait(gate);
                   done();
                 });
               }});
  s.call(a, "test.gate", {}, {});
  s.call(b, "test.fail", {}, {}, {{"at", std::int64_t{3}}});
  int plan = session.load(s.plan);
  std::vector<Launch> launches;
  for (int i = 0; i < 8; ++i) launches.push_back(session.launch(plan));
  gate.unlock();
  EXPECT_EQ(error_of([&] { launches[0].wait(), launches[1].wait(); }), "no error");
  const std::string first = "test.fail at sketch.cc:2: run 3 failed [launch 3, actor 'b', device 0.0]";
  EXPECT_EQ(error_of([&] { launches[2].wait(); }), first);
  for (std::size_t i = 3; i < 8; ++i)
    EXPECT_EQ(error_of([&] { launches[i].wait(); }),
              cat("launch ", i + 1, " did not run, because an earlier launch failed: ", first));
  for (std::thread& thread : waiting) thread.join();
}

// Earlier launches of other plans that do not conflict with the failed launch still run.
TEST(Launches, LaunchesMadeBeforeAFailedLaunchStillRun) {
  Fixture f;
  PlanBuilder s(1, "fails");
  ActorId a = s.actor("a", 1);
  s.start(a);
  s.done(a);
  s.call(a, "test.fail", {}, {}, {{"at", std::int64_t{1}}});
  int slow = f.load("slow", {"v"}, true), second_slow = f.load("also", {"v"}, true), fails = f.session.load(s.plan);
  f.zero("v");
  Launch first = f.session.launch(slow), second = f.session.launch(second_slow), third = f.session.launch(fails);
  EXPECT_NE(error_of([&] { third.wait(); }), "no error");
  EXPECT_TRUE(f.timer.active(1));
  f.timer.tick();
  EXPECT_EQ(error_of([&] { first.wait(); }), "no error");
  EXPECT_TRUE(f.timer.active(1)) << "the second launch must run";
  f.timer.tick();
  EXPECT_EQ(error_of([&] { second.wait(); }), "no error");
  EXPECT_EQ(f.value("v"), 2);
}

TEST(Launches, OtherPlansRunAfterAFailedLaunch) {
  Fixture f;
  PlanBuilder s(1, "fails");
  ActorId a = s.actor("a", 0), b = s.actor("b", 0);
  s.start(a);
  s.edge(a, {b});
  s.done(b);
  s.call(a, "test.timer", {}, {});
  s.call(b, "test.fail", {}, {}, {{"at", std::int64_t{1}}});
  int fails = f.session.load(s.plan), other_plan = f.load("other_plan", {"v"}, true);
  Launch first = f.session.launch(fails), second = f.session.launch(other_plan), third = f.session.launch(other_plan);
  EXPECT_TRUE(f.timer.active(2));
  f.timer.tick();
  EXPECT_NE(error_of([&] { first.wait(); }), "no error") << "the failed launch must end while the other plan waits";
  EXPECT_TRUE(eventually([&] {
    f.timer.tick();
    return third.done();
  }));
  EXPECT_NO_THROW(second.wait());
  EXPECT_NO_THROW(third.wait());
}

TEST(Launches, ALaunchDoesNotRunAfterATornLaunchThatItWaitedFor) {
  Fixture f;
  PlanBuilder s(1, "tears");
  ActorId state = s.actor("state", 0, 0, BodyKind::state), wait = s.actor("wait"), count = s.actor("count"),
          fails = s.actor("fails");
  BlockId block = s.block(BlockKind::variable, 0, 4, "v", "f32[1]");
  s.start(state);
  s.edge(state, {wait, count});
  s.edge(wait, {count});
  s.edge(count, {fails});
  s.done(fails);
  s.call(wait, "test.timer", {}, {});
  s.call(count, "test.count", {in_block(block, scalar)}, {in_block(block, scalar)});
  s.call(fails, "test.fail", {}, {}, {{"at", std::int64_t{1}}});
  const int tears = f.session.load(s.plan), later = f.load("later", {"v"}, true);
  f.zero("v");
  Launch first = f.session.launch(tears), second = f.session.launch(later);
  EXPECT_TRUE(f.timer.active(1)) << "the second launch must wait, because both write v";
  f.timer.tick();
  EXPECT_THAT(error_of([&] { first.wait(); }), ::testing::HasSubstr("had begun to write its variables"));
  EXPECT_TRUE(eventually([&] { return second.done(); })) << "the second launch must not start its timer";
  f.timer.tick();
  EXPECT_THAT(error_of([&] { second.wait(); }), ::testing::HasSubstr("launch 2 did not run"));
}

// A read waits only for earlier launches that write the variable, and no later launch writes it during the read.
TEST(Launches, AVariableLockWaitsOnlyForEarlierLaunchesThatWriteTheVariable) {
  Fixture f;
  int a = f.load("a", {"a"}, true), b = f.load("b", {"b"}, true);
  f.zero("a"), f.zero("b");
  Launch slow = f.session.launch(b);
  EXPECT_TRUE(f.timer.active(1));
  EXPECT_EQ(f.value("a"), 0) << "the read must not wait for a launch that does not use the variable";
  Launch first = f.session.launch(a);
  EXPECT_TRUE(f.timer.active(2));
  auto later =
      std::async(std::launch::async, [variable_lock = f.session.lock_variable("a", {{device, scalar}}, false)] {
        return variable_lock.read()[0].data<float>()[0];
      });
  EXPECT_EQ(later.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout);
  f.timer.tick();
  EXPECT_EQ(later.get(), 1);
  slow.wait(), first.wait();
  {
    VariableLock variable_lock = f.session.lock_variable("a", {{device, scalar}}, false);
    Launch writer = f.session.launch(a);
    pause();
    EXPECT_TRUE(f.timer.active(0)) << "the writer must wait for the reader";
    EXPECT_EQ(variable_lock.read()[0].data<float>()[0], 1);
    later = {};
  }
  EXPECT_TRUE(f.timer.active(1));
  f.timer.tick();
  EXPECT_EQ(f.value("a"), 2);
}

TEST(Launches, AnUnusedVariableLockIsReleasedAndTheNumberOfWrittenValuesIsChecked) {
  Fixture f;
  f.load("a", {"a"}, true);
  { VariableLock unused = f.session.lock_variable("a", {{device, scalar}}, true); }
  EXPECT_EQ(error_of([&] {
              f.session.lock_variable("a", {{device, scalar}}, true).write({});
            }),
            "variable 'a': expected one value for each of its 1 parts, got 0");
  f.zero("a");
  EXPECT_EQ(f.value("a"), 0);
}

// Launches random plans in quick succession. Each launch has a different input, so that a value of the wrong launch is
// detected.
TEST(Launches, RandomPlansComputeCorrectValuesWithSeveralLaunchesInFlight) {
  KernelTable table(test_kernels());
  const unsigned seeds = std::getenv("KAREZ_ALL") != nullptr ? 1000 : 200;
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    RandomGraph graph(seed, 2);
    for (int workers : {1, 2}) {
      Session session({.workers = workers, .in_flight = 4}, table);
      int plan = session.load(graph.s.plan);
      std::vector<Launch> launches;
      for (int i = 0; i < 6; ++i) {
        const auto x = static_cast<float>(i);
        launches.push_back(session.launch(plan, {{"x", {array_source(HostArray::of<float>({4}, {x, x, x, x})), 0}}}));
      }
      for (std::size_t i = 0; i < 6; ++i)
        for (const auto& [name, at_one] : graph.expected) {
          const float at_zero = launches[0].output(name).data<float>()[0];
          const HostArray actual = launches[i].output(name);
          for (float y : actual.data<float>())
            ASSERT_EQ(y, at_zero + static_cast<float>(i) * (at_one - at_zero))
                << "seed " << seed << ", launch " << i << ", output " << name;
        }
    }
  }
}

}  // namespace
}  // namespace karez::runtime
