// Tests of random delays of acts: how long acts wait, what runs during a delay, and that results do not change.
#include "karez/runtime/delays.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <set>

#include "karez/base/test_error.h"
#include "karez/data/array_source.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"
#include "karez/runtime/test_wait.h"

namespace karez::runtime {
namespace {

TEST(Delays, DelaysAreDeterminedByTheSeedAndRangeFromZeroToTheMaximum) {
  const Delays delays{.max_microseconds = 9, .seed = 1}, other_delays{.max_microseconds = 9, .seed = 2};
  std::vector<int> times(10, 0);
  int same = 0;
  for (int actor = 0; actor < 10; ++actor)
    for (std::int64_t act = 0; act < 1000; ++act) {
      const std::int64_t delay = delays.microseconds(actor, act);
      ASSERT_TRUE(delay >= 0 && delay <= 9) << delay;
      ASSERT_EQ(delay, delays.microseconds(actor, act));
      ++times[static_cast<std::size_t>(delay)];
      same += delay == other_delays.microseconds(actor, act);
    }
  for (int count : times) EXPECT_NEAR(count, 1000, 150);
  EXPECT_NEAR(same, 1000, 150);
  EXPECT_EQ(error_of([] { Session({.delays = {.max_microseconds = -1}}, KernelTable({})); }),
            "session: delays.max_microseconds must be at least 0, got -1");
}

// The acts run one after another, so a launch takes at least the sum of their delays.
TEST(Delays, AnActDoesNotBeginBeforeItsDelayIsOver) {
  PlanBuilder s;
  ActorId a = s.actor("a"), b = s.actor("b", 1), c = s.actor("c");
  s.start(a), s.edge(a, {b}), s.edge(b, {c}), s.done(c);
  KernelTable table({});
  for (int workers : {1, 2}) {
    const Delays delays{.max_microseconds = 3000, .seed = 3};
    Session session({.workers = workers, .delays = delays}, table);
    const int plan = session.load(s.plan);
    for (std::int64_t launch = 0; launch < 10; ++launch) {
      std::int64_t min_delay = 0;
      for (ActorId actor : {a, b, c}) min_delay += delays.microseconds(actor.index, launch);
      const auto begin = std::chrono::steady_clock::now();
      finish(session, session.launch(plan));
      EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::microseconds(min_delay)) << "launch " << launch;
    }
  }
}

// Two actors become ready together on one worker. Without delays the actor with the higher priority acts first; with
// delays the actor with the shorter delay acts first.
TEST(Delays, OtherActorsActDuringADelay) {
  PlanBuilder s;
  ActorId preferred = s.actor("better"), other = s.actor("other");
  s.plan.actors[other].priority = 1;
  for (ActorId actor : {preferred, other}) s.start(actor), s.done(actor);
  KernelTable table({});
  constexpr int launches = 50;
  // Returns the number of launches in which `other` acted first, and the number of launches in which the actor with the
  // shorter delay acted first.
  const auto counts = [&](int max_microseconds) {
    const Delays delays{.max_microseconds = max_microseconds, .seed = 4};
    Session session({.workers = 1, .in_flight = 1, .delays = delays}, table);
    const int plan = session.load(s.plan);
    for (int i = 0; i < launches; ++i) finish(session, session.launch(plan));
    std::vector<ActorId> acts;
    const EventLog log = session.events()[0];
    for (const Event& event : log.events)
      if (event.kind == EventKind::acted) acts.push_back(event.actor);
    EXPECT_EQ(acts.size(), 2u * launches);
    int swapped = 0, shorter = 0;
    for (std::size_t i = 0; i + 1 < acts.size(); i += 2) {
      EXPECT_NE(acts[i], acts[i + 1]);
      swapped += acts[i] == other;
      const auto launch = static_cast<std::int64_t>(i / 2);
      shorter += delays.microseconds(acts[i].index, launch) <= delays.microseconds(acts[i + 1].index, launch);
    }
    return std::pair(swapped, shorter);
  };
  EXPECT_EQ(counts(0).first, 0);
  const auto [swapped, shorter] = counts(10'000);
  EXPECT_TRUE(swapped > 5 && swapped < launches - 5) << swapped << " of " << launches;
  EXPECT_GT(shorter, launches * 3 / 4);  // all, unless the thread was suspended between the two acts
}

TEST(Delays, RandomGraphsComputeCorrectValuesWithSeveralLaunchesInFlight) {
  const KernelTable table(test_kernels());
  const HostArray ones = HostArray::of<float>({4}, {1, 1, 1, 1});
  for (int workers : {1, 2})
    for (unsigned seed = 1; seed <= 100; ++seed) {
      RandomGraph graph(seed, 3);
      Session session({.workers = workers, .poison = true, .delays = {.max_microseconds = 20, .seed = seed}}, table);
      const int plan = session.load(graph.s.plan);
      std::vector<Launch> launches;
      for (int i = 0; i < 10; ++i) launches.push_back(session.launch(plan, {{"x", {array_source(ones), 0}}}));
      finish(session, launches.back());
      for (Launch& launch : launches)
        for (const auto& [name, value] : graph.expected) {
          const HostArray actual = launch.output(name);
          for (float y : actual.data<float>()) ASSERT_EQ(y, value) << "seed " << seed << ", output " << name;
        }
    }
}

// The asynchronous kernels of two actors on one stream never overlap, whichever of them was delayed while the stream
// was busy.
TEST(Delays, AStreamStillRunsOneKernelAtATime) {
  PlanBuilder s;
  ActorId a = s.actor("a"), b = s.actor("b");
  for (ActorId actor : {a, b}) s.start(actor), s.done(actor), s.call(actor, "test.later", {}, {});
  std::atomic<int> active{0}, runs{0}, overlaps{0};
  std::vector<std::future<void>> ends;  // used only by the one worker
  {
    KernelTable table({});
    Session session({.workers = 1, .delays = {.max_microseconds = 200, .seed = 5}}, table);
    session.add({"test.later", [&](const KernelArgs&, const Completion& done) {
                   if (++active > 1) ++overlaps;
                   ++runs;
                   ends.push_back(std::async(std::launch::async, [&active, done] {
                     std::this_thread::sleep_for(std::chrono::microseconds(100));
                     --active;
                     done();
                   }));
                 }});
    const int plan = session.load(s.plan);
    std::vector<Launch> launches;
    for (int i = 0; i < 100; ++i) launches.push_back(session.launch(plan));
    finish(session, launches.back());
  }
  EXPECT_EQ(runs, 200);
  EXPECT_EQ(overlaps, 0);
}

// An actor without inputs may act ahead of its launch. If such an act is still delayed when its plan is unloaded, it
// never runs.
TEST(Delays, APlanCanBeUnloadedWhileActsAreDelayed) {
  PlanBuilder s;
  ActorId ahead = s.actor("ahead"), last = s.actor("last");
  s.start(last), s.edge(ahead, {last}, 2), s.done(last);
  KernelTable table({});
  Session session({.workers = 1, .delays = {.max_microseconds = 5000, .seed = 6}}, table);
  for (int i = 0; i < 20; ++i) {
    const int plan = session.load(s.plan);
    Launch launch = session.launch(plan);
    EXPECT_TRUE(session.unload(plan));
    finish(session, launch);
    EXPECT_TRUE(eventually([&] { return session.plans() == 0; }));
  }
}

}  // namespace
}  // namespace karez::runtime
