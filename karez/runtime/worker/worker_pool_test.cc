// Tests of the worker pool: how many workers it starts, and what it reports about them.
#include "karez/runtime/worker/worker_pool.h"

#include <gtest/gtest.h>

#include "karez/device/cpu_budget.h"
#include "karez/plan/test_plan_builder.h"

namespace karez::runtime {
namespace {

class NoLaunches final : public WorkerOwner {
 public:
  void finished(LaunchRecord&) override {}
  bool rejects(const LaunchRecord&) const override { return false; }
  bool producer_failed(const LaunchRecord&) const override { return false; }
  void invalidate(std::uint64_t) override {}
  void grant(LaunchRecord&) override {}
  void on_protocol_error(const Error&) override {}
  void on_unloaded(LoadedPlan&) override {}
};

// Returns a plan with one actor on each stream. Each kernel has a team of `team` threads.
Plan make_plan(int streams, int team) {
  PlanBuilder s;
  for (int i = 0; i < streams; ++i) {
    const ActorId a = s.actor(cat("a", i), i);
    s.start(a), s.done(a);
    s.call(a, "test.kernel", {}, {});
    s.plan.actors[a].calls[0].team = team;
  }
  return s.plan;
}

struct Fixture {
  NoLaunches owner;
  std::mutex session_mutex;
  WorkerPool pool;
  int first_boxes = 0;
  explicit Fixture(int workers = 0) : pool(owner, session_mutex, {.workers = workers}) {}
  ~Fixture() { stop(); }
  void start(const Plan& plan) {
    pool.start(plan, [&](Mailbox&) { ++first_boxes; });
  }
  void stop() {
    pool.stop([] {});
  }
};

TEST(WorkerPool, WorkersAreStartedWhenAPlanNeedsThem) {
  Fixture f(2);
  EXPECT_EQ(f.pool.size(), 0);
  EXPECT_EQ(f.pool.first_box(), nullptr);
  f.start(make_plan(1, 1));
  EXPECT_EQ(f.pool.size(), 1);
  f.start(make_plan(8, 1));
  EXPECT_EQ(f.pool.size(), f.pool.max_workers());
  EXPECT_LE(f.pool.max_workers(), std::min(2, cpu_budget().cores));
  f.start(make_plan(1, 1));
  EXPECT_EQ(f.pool.size(), f.pool.max_workers()) << "workers must be kept";
  EXPECT_EQ(f.first_boxes, 1) << "worker 0 must be created once";
}

TEST(WorkerPool, AStoppedPoolCanBeStartedAgain) {
  Fixture f(1);
  f.start(make_plan(1, 1));
  f.stop();
  EXPECT_EQ(f.pool.size(), 0);
  f.start(make_plan(1, 1));
  EXPECT_EQ(f.pool.size(), 1);
  EXPECT_EQ(f.first_boxes, 2);
}

TEST(WorkerPool, IdleWorkersReportThatTheyAreIdle) {
  Fixture f(1);
  EXPECT_EQ(f.pool.wait_graph(), "no worker: no plan is loaded\n");
  f.start(make_plan(1, 1));
  EXPECT_EQ(f.pool.wait_graph(), "worker 0:\nidle\n");
  RankState state;
  f.pool.add_states(state, 5);
  EXPECT_EQ(state, RankState());
  EXPECT_EQ(f.pool.ticks(false), 0);
  EXPECT_EQ(f.pool.events().size(), 1u);
}

TEST(WorkerPool, BusyThreadsAreTheSumOfTheLargestTeamsOfAllWorkers) {
  Fixture f(1);
  EXPECT_EQ(f.pool.busy_threads(make_plan(1, 3)), 3);
  EXPECT_EQ(f.pool.busy_threads(make_plan(2, 3)), 3) << "one worker serves both streams";
}

TEST(WorkerPool, TheSourceReaderExistsOnceAPlanHasInputs) {
  Fixture f(1);
  EXPECT_EQ(f.pool.source_reader(make_plan(1, 1)), nullptr);
  EXPECT_EQ(f.pool.reader_seconds(), 0);
  PlanBuilder s;
  s.actor("in", 0, 0, BodyKind::input);
  SourceReader* const reader = f.pool.source_reader(s.plan);
  EXPECT_NE(reader, nullptr);
  EXPECT_EQ(f.pool.source_reader(make_plan(1, 1)), reader);
}

}  // namespace
}  // namespace karez::runtime
