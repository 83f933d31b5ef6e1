// Tests of which thread runs a launch: its worker's or the one that made it. Each launch runs exactly once, whichever
// thread it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "karez/base/test_error.h"
#include "karez/data/array_source.h"
#include "karez/runtime/session.h"
#include "karez/runtime/session_thread.h"
#include "karez/runtime/test_plans.h"
#include "karez/runtime/test_wait.h"

namespace karez::runtime {
namespace {

// Notes the thread of each run of its kernel, `where`, which may take some time or fail.
struct Runs {
  std::vector<std::thread::id> threads;
  std::chrono::milliseconds duration{0};
  std::atomic<bool> fails{false};

  KernelTable table() {
    std::vector<KernelRow> rows = test_kernels();
    rows.push_back(test_row("where", [this](const CallSpec&) -> PreparedKernel {
      return [this](const KernelArgs&) {
        EXPECT_TRUE(is_session_thread());
        threads.push_back(std::this_thread::get_id());
        std::this_thread::sleep_for(duration);
        require(!fails, "the kernel fails");
      };
    }));
    return KernelTable(std::move(rows));
  }
  bool last_on_caller() const { return threads.back() == std::this_thread::get_id(); }
};

Plan one_call(int team = 1) {
  PlanBuilder s;
  const ActorId a = s.actor("a");
  s.start(a), s.done(a), s.call(a, "test.where", {}, {});
  s.plan.actors[a].calls[0].team = team;
  return s.plan;
}

// Tries until a launch runs on the calling thread: on a busy machine, a wait may come late.
bool caller_runs(Session& session, int plan, const Runs& runs) {
  return eventually([&] {
    session.launch(plan).wait();
    return runs.last_on_caller();
  });
}

TEST(SessionCaller, ALaunchRunsOnTheCallingThreadIfTheLastOneWasAwaitedAtOnce) {
  Runs runs;
  const KernelTable table = runs.table();
  Session session({.workers = 1}, table);
  const int plan = session.load(one_call());
  session.launch(plan).wait();
  EXPECT_FALSE(runs.last_on_caller());
  EXPECT_TRUE(caller_runs(session, plan, runs));
  EXPECT_FALSE(is_session_thread());
  // A launch that is made on the calling thread, but not awaited, is the last such launch.
  EXPECT_TRUE(caller_runs(session, plan, runs));
  const Launch not_awaited = session.launch(plan);
  finish(session, session.launch(plan));
  EXPECT_FALSE(runs.last_on_caller());
  EXPECT_TRUE(caller_runs(session, plan, runs));
}

TEST(SessionCaller, ALongLaunchRunsOnItsWorker) {
  Runs runs;
  const KernelTable table = runs.table();
  Session session({.workers = 1}, table);
  const int plan = session.load(one_call());
  EXPECT_TRUE(caller_runs(session, plan, runs));
  runs.duration = std::chrono::milliseconds(8);
  session.launch(plan).wait();  // may still run here
  for (int i = 0; i < 5; ++i) {
    session.launch(plan).wait();
    EXPECT_FALSE(runs.last_on_caller()) << i;
  }
}

TEST(SessionCaller, PlansWithTeamsOrOnSeveralWorkersRunOnWorkers) {
  Runs runs;
  const KernelTable table = runs.table();
  Session session({.workers = 2}, table);
  PlanBuilder two;
  const ActorId a = two.actor("a"), b = two.actor("b", 1);
  two.start(a), two.edge(a, {b}), two.done(b), two.call(a, "test.where", {}, {}), two.call(b, "test.where", {}, {});
  for (const int plan : {session.load(one_call(2)), session.load(two.plan)})
    for (int i = 0; i < 20; ++i) {
      session.launch(plan).wait();
      EXPECT_FALSE(runs.last_on_caller()) << plan << ", " << i;
    }
}

TEST(SessionCaller, PinnedAndDelayedWorkersDoAllWorkThemselves) {
  Runs runs;
  const KernelTable table = runs.table();
  for (const bool pin : {true, false}) {
    Session session({.workers = 1, .pin = pin, .delays = {.max_microseconds = pin ? 0 : 20}}, table);
    const int plan = session.load(one_call());
    for (int i = 0; i < 20; ++i) {
      session.launch(plan).wait();
      EXPECT_FALSE(runs.last_on_caller()) << pin << ", " << i;
    }
  }
}

// Notes whether the thread that made it reads it.
class NotingSource : public Source {
 public:
  explicit NotingSource(bool blocks) : blocks_(blocks) {}
  TensorType type() const override { return {DType::f32, {4}}; }
  void read(std::int64_t, std::span<const std::int64_t>, const TensorRef& out) const override {
    std::fill_n(test_data(out.data), 4, 1.0f);
    on_caller = caller == std::this_thread::get_id();
  }
  bool may_block() const override { return blocks_; }

  const std::thread::id caller = std::this_thread::get_id();
  mutable std::atomic<bool> on_caller{false};

 private:
  const bool blocks_;
};

TEST(SessionCaller, ASourceThatMayBlockIsReadByTheWorker) {
  const KernelTable table(test_kernels());
  Session session({.workers = 1}, table);
  PlanBuilder s;
  const ActorId x = s.actor("x", 0, 0, BodyKind::input), y = s.actor("y", 0, 0, BodyKind::fetch);
  s.start(x);
  const RegisterId value = s.edge(x, {y}, 1, 16);
  s.done(y);
  s.plan.actors[x].binding = "x", s.plan.actors[y].binding = "y";
  s.plan.actors[x].bound = s.plan.actors[y].bound = {in_register(value, test_vector)};
  s.plan.actors[x].slices = {Attrs{{"begin", Ints{0}}, {"shape", Ints{4}}}};
  const int plan = session.load(s.plan);
  const auto blocking = std::make_shared<NotingSource>(true), quick = std::make_shared<NotingSource>(false);
  EXPECT_TRUE(eventually([&] {
    EXPECT_EQ(session.launch(plan, {{"x", {quick, 0}}}).output("y").data<float>()[3], 1.0f);
    return quick->on_caller.load();
  }));
  for (int i = 0; i < 20; ++i) {
    session.launch(plan, {{"x", {blocking, 0}}}).wait();
    EXPECT_FALSE(blocking->on_caller) << i;
  }
  EXPECT_FALSE(array_source(HostArray::of<float>({1}, {1}))->may_block());
}

TEST(SessionCaller, AnErrorOfALaunchOnTheCallingThreadIsThrownByItsWait) {
  Runs runs;
  const KernelTable table = runs.table();
  Session session({.workers = 1}, table);
  const int plan = session.load(one_call());
  EXPECT_TRUE(caller_runs(session, plan, runs));
  runs.fails = true;
  const Launch failed = session.launch(plan);
  runs.fails = false;
  EXPECT_NE(error_of([&] { failed.wait(); }).find("the kernel fails"), std::string::npos);
  EXPECT_TRUE(caller_runs(session, plan, runs));
}

TEST(SessionCaller, ThreadsThatLaunchAndLockVariablesAtOnceLoseNothing) {
  const KernelTable table(test_kernels());
  constexpr int rounds = 400;
  Session session({.workers = 2}, table);
  const int counting = session.load(counting_plan()), other = session.load(counting_plan("other"));
  const PlanDevice device{0, 0, "cpu"};
  const View one(DType::f32, {1});
  std::vector<std::thread> threads;
  for (const int plan : {counting, other, counting})
    threads.emplace_back([&session, plan] {
      for (int i = 0; i < rounds; ++i) {
        const Launch launch = session.launch(plan);
        if (i % 7 != 0) launch.wait();
      }
    });
  threads.emplace_back([&] {
    float last = 0;
    for (int i = 0; i < rounds; ++i) {
      const float read = session.read_variable("n", device, one).data<float>()[0];
      EXPECT_GE(read, last);
      last = read;
      if (i % 50 == 0) session.wait_graph();
    }
  });
  for (std::thread& thread : threads) thread.join();
  session.wait_all_launches();
  EXPECT_EQ(session.read_variable("n", device, one).data<float>()[0], 3.0f * rounds);
}

TEST(SessionCaller, ALockIsGrantedAndReleasedWhileTheWorkerSleeps) {
  const KernelTable table(test_kernels());
  Session session({.workers = 1, .spin_microseconds = 0}, table);
  const int plan = session.load(counting_plan());
  const PlanDevice device{0, 0, "cpu"};
  const View one(DType::f32, {1});
  finish(session, session.launch(plan));
  for (int i = 0; i < 100; ++i)
    session.write_variable("n", device, one, HostArray::of<float>({1}, {static_cast<float>(i)}));
  {
    const VariableLock lock = session.lock_variable("n", {{device, one}}, true);
    const Launch waiting = session.launch(plan);
    pause();
    EXPECT_FALSE(waiting.done());
    EXPECT_EQ(lock.read()[0].data<float>()[0], 99.0f);
  }
  session.wait_all_launches();  // the release has woken the worker, which has the launch to do
  EXPECT_EQ(session.read_variable("n", device, one).data<float>()[0], 100.0f);
}

}  // namespace
}  // namespace karez::runtime
