// Tests of failing acts: how launches are poisoned, and which errors the waiting threads receive.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>

#include "karez/base/test_error.h"
#include "karez/data/array_source.h"
#include "karez/plan/acts.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"

namespace karez::runtime {
namespace {

struct KindAndLine {
  ErrorKind kind = ErrorKind::user;
  std::string where;
  bool operator==(const KindAndLine&) const = default;
};
std::ostream& operator<<(std::ostream& out, const KindAndLine& error) {
  return out << name_of(error.kind) << " error of " << error.where;
}

KindAndLine catch_error(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) { return {error.kind, error.where}; }
  return {ErrorKind::user, "no error"};
}

// A chain of three actors on two workers. The middle actor fails in its second act.
Plan failing_plan() {
  PlanBuilder s;
  ActorId a = s.actor("a"), b = s.actor("b", 1), c = s.actor("c");
  s.start(a, 3);
  s.edge(a, {b}, 2);
  s.edge(b, {c}, 2);
  s.done(c, 3);
  s.call(b, "test.fail", {}, {}, {{"at", std::int64_t{2}}});
  return s.plan;
}

Plan plain_plan() {
  PlanBuilder s;
  ActorId a = s.actor("a");
  s.start(a);
  s.done(a);
  return s.plan;
}

TEST(Failure, TheFirstErrorReachesTheWaiterWithLineActorAndDevice) {
  KernelTable table(test_kernels());
  Session session({.workers = 2}, table);
  Launch launch = session.launch(session.load(failing_plan()));
  EXPECT_EQ(error_of([&] { launch.wait(); }),
            "test.fail at sketch.cc:2: run 2 failed [launch 1, actor 'b', device 0.0]");
  EXPECT_EQ(error_of([&] { launch.outputs(); }), error_of([&] { launch.wait(); }))
      << "every accessor must throw the error";
}

TEST(Failure, APoisonedLaunchReturnsItsTokensAndLaterLaunchesRunAfterItsErrorIsReported) {
  KernelTable table(test_kernels());
  Session session({.workers = 2}, table);
  int plan = session.load(failing_plan());
  std::vector<Launch> launches;
  for (int i = 0; i < 3; ++i) {
    try {
      launches.push_back(session.launch(plan));  // the first launch may fail before the others are made
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("an earlier launch failed: test.fail at sketch.cc:2: run 2"),
                std::string::npos);
    }
  }
  EXPECT_NE(error_of([&] { launches[0].wait(); }), "no error");
  for (std::size_t i = 1; i < launches.size(); ++i) {
    const std::string error = error_of([&] { launches[i].wait(); });
    EXPECT_TRUE(error == "no error" ||
                error.find(cat("launch ", i + 1, " did not run, because an earlier launch failed: test.fail")) == 0)
        << error;
  }
  EXPECT_EQ(session.counters().messages % messages_per_launch(failing_plan()), 0)
      << "every message of a poisoned launch must be sent";
  EXPECT_FALSE(session.failed());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(error_of([&] { session.launch(plan).wait(); }), "no error");
  session.reload();
  EXPECT_EQ(error_of([&] { session.launch(plan); }), "no plan 0 is loaded in this session");
  EXPECT_NO_THROW(session.launch(session.load(plain_plan())).wait());
}

class FailingSource : public Source {
 public:
  TensorType type() const override { return {DType::f32, {4}}; }
  void read(std::int64_t position, std::span<const std::int64_t>, const TensorRef& out) const override {
    require(ErrorKind::data, position < 2, "row ", position, ": label 11 is out of range 0..9");
    for (int i = 0; i < 4; ++i) out.as<float>()[i] = static_cast<float>(position);
  }
};

TEST(Failure, TheErrorOfASourceNamesTheLineOfTheInput) {
  RandomGraph graph(3, 2);
  KernelTable table(test_kernels());
  Session session({.workers = 2}, table);
  int plan = session.load(graph.s.plan);
  auto source = std::make_shared<FailingSource>();
  EXPECT_NO_THROW(session.launch(plan, {{"x", {source, 1}}}).wait());
  std::string error = error_of([&] { session.launch(plan, {{"x", {source, 2}}}).wait(); });
  EXPECT_EQ(error.find("node.0 at sketch.cc:1: row 2: label 11 is out of range 0..9 [launch 2, actor 'node."), 0u)
      << error;
  EXPECT_EQ(catch_error([&] {
              session.launch(plan, {{"x", {source, 2}}}).wait();
            }),
            (KindAndLine{ErrorKind::data, "sketch.cc:1"}));
  EXPECT_NO_THROW(session.launch(plan, {{"x", {source, 0}}}).wait());
}

// One actor that calls `kernel`.
Plan plan_of(const char* kernel) {
  PlanBuilder s;
  ActorId a = s.actor("a");
  s.start(a);
  s.done(a);
  s.call(a, kernel, {}, {});
  return s.plan;
}

TEST(Failure, EveryWaitThrowsAnErrorWithTheKindOfTheCauseAndTheUsersLine) {
  for (ErrorKind kind : {ErrorKind::shape, ErrorKind::device, ErrorKind::peer, ErrorKind::hang, ErrorKind::data}) {
    std::vector<KernelRow> rows = test_kernels();
    rows.push_back(test_row("raise", [=](const CallSpec&) -> PreparedKernel {
      return [=](const KernelArgs&) { fail(kind, "it broke"); };
    }));
    rows.push_back(test_row("unready", [=](const CallSpec&) -> PreparedKernel { fail(kind, "it does not fit"); }));
    KernelTable table(std::move(rows));
    Session session({.workers = 2}, table);
    session.add({"test.late", [=](const KernelArgs&, const Completion& done) {
                   done(std::make_exception_ptr(Error(kind, "late")));
                 }});
    session.add({"test.throw", [=](const KernelArgs&, const Completion&) { fail(kind, "at once"); }});
    const KindAndLine expected{kind, "sketch.cc:2"};
    for (const char* kernel : {"test.raise", "test.late", "test.throw"}) {
      const int plan = session.load(plan_of(kernel));
      Launch first = session.launch(plan);
      EXPECT_EQ(catch_error([&] { session.launch(plan).wait(); }), expected)
          << kernel << ": the second launch must be refused or not run";
      EXPECT_EQ(catch_error([&] { first.wait(); }), expected) << kernel;
      EXPECT_EQ(catch_error([&] { first.outputs(); }), expected) << kernel;
      EXPECT_EQ(catch_error([&] { session.launch(plan).wait(); }), expected) << kernel;
      session.reload();
      EXPECT_NO_THROW(session.launch(session.load(plain_plan())).wait());
    }
    EXPECT_EQ(catch_error([&] { session.load(plan_of("test.unready")); }).kind, kind);
    Plan setup = plan_of("test.raise");
    std::swap(setup.setup, setup.actors[ActorId(0)].calls);
    EXPECT_EQ(catch_error([&] { session.load(setup); }).kind, kind);
  }
}

TEST(Failure, AnErrorKeepsTheSourceLineOfItsCause) {
  KernelTable table({test_row("lined", [](const CallSpec&) -> PreparedKernel {
    return [](const KernelArgs&) { throw Error(ErrorKind::data, "line 7 is odd", "labels.txt:7"); };
  })});
  Session session({}, table);
  EXPECT_EQ(catch_error([&] { session.launch(session.load(plan_of("test.lined"))).wait(); }),
            (KindAndLine{ErrorKind::data, "labels.txt:7"}));
}

TEST(Failure, OutOfMemoryIsADeviceErrorAndAnExceptionOfAnotherLibraryIsAUserError) {
  KernelTable table(
      {test_row("hungry",
                [](const CallSpec&) -> PreparedKernel { return [](const KernelArgs&) { throw std::bad_alloc(); }; }),
       test_row("foreign", [](const CallSpec&) -> PreparedKernel {
         return [](const KernelArgs&) { throw std::out_of_range("?"); };
       })});
  Session session({}, table);
  EXPECT_EQ(catch_error([&] { session.launch(session.load(plan_of("test.hungry"))).wait(); }).kind, ErrorKind::device);
  session.reload();
  EXPECT_EQ(catch_error([&] { session.launch(session.load(plan_of("test.foreign"))).wait(); }),
            (KindAndLine{ErrorKind::user, "sketch.cc:2"}));
}

// bad -> add -> tick: bad calls `kernel`, and add adds one to the variable "n".
Plan plan_with_consumers(const char* kernel) {
  PlanBuilder s;
  ActorId bad = s.actor("bad"), add = s.actor("add", 1), tick = s.actor("tick");
  BlockId n = s.block(BlockKind::variable, 0, 4, "n", "f32[1]");
  s.start(bad);
  s.edge(bad, {add});
  s.edge(add, {tick});
  s.done(tick);
  s.call(bad, kernel, {}, {}, {{"at", std::int64_t{2}}});
  s.call(add, "test.count", {}, {in_block(n, View(DType::f32, {1}))});
  s.call(add, "test.tick", {}, {});
  s.call(tick, "test.tick", {}, {});
  return s.plan;
}

TEST(Failure, ActorsDownstreamOfAFailureDoNotRunAndDoNotChangeTheirVariable) {
  for (int workers : {1, 2})
    for (const char* kernel : {"test.fail", "test.refuse"}) {
      std::atomic<int> ticks{0}, runs{0};
      std::vector<KernelRow> rows = test_kernels();
      rows.push_back(
          test_row("tick", [&](const CallSpec&) -> PreparedKernel { return [&](const KernelArgs&) { ++ticks; }; }));
      KernelTable table(std::move(rows));
      Session session({.workers = workers, .poison = false}, table);
      session.add({"test.refuse", [&](const KernelArgs&, const Completion& done) {
                     done(++runs == 2 ? std::make_exception_ptr(Error("refused")) : nullptr);
                   }});
      const PlanDevice device{0, 0, "cpu"};
      const View one(DType::f32, {1});
      int plan = session.load(plan_with_consumers(kernel));
      session.write_variable("n", device, one, HostArray::of<float>({1}, {7}));
      session.launch(plan).wait();
      EXPECT_EQ(ticks, 2);
      EXPECT_NE(error_of([&] { session.launch(plan).wait(); }), "no error");
      EXPECT_EQ(ticks, 2) << kernel;
      EXPECT_EQ(session.read_variable("n", device, one).data<float>()[0], 8) << kernel;
      EXPECT_EQ(session.counters().messages, 2 * messages_per_launch(plan_with_consumers(kernel)))
          << "every token must be returned";
    }
}

TEST(Failure, TheFirstErrorIsKeptIfAnAsynchronousKernelFailsLater) {
  std::atomic<bool> failed{false};
  std::vector<KernelRow> rows;
  rows.push_back(test_row("soon", [&](const CallSpec&) -> PreparedKernel {
    return [&](const KernelArgs&) {
      failed = true;
      fail(ErrorKind::data, "soon");
    };
  }));
  KernelTable table(std::move(rows));
  std::mutex mutex;
  std::vector<Completion> pending;
  Session session({.workers = 1}, table);
  session.add({"test.later", [&](const KernelArgs&, const Completion& done) {
                 std::lock_guard lock(mutex);
                 pending.push_back(done);
               }});
  PlanBuilder s;
  ActorId later = s.actor("later", 0),
          soon = s.actor("soon", 1);  // two streams, one thread: `later` has begun when `soon` fails
  for (ActorId a : {later, soon}) {
    s.start(a);
    s.done(a);
  }
  s.call(later, "test.later", {}, {});
  s.call(soon, "test.soon", {}, {});
  Launch launch = session.launch(session.load(s.plan));
  while (!failed) std::this_thread::yield();
  {
    std::lock_guard lock(mutex);
    ASSERT_EQ(pending.size(), 1u);
    // Worker 0 opens this mail after the failing act.
    pending[0](std::make_exception_ptr(Error(ErrorKind::device, "later")));
  }
  EXPECT_EQ(error_of([&] { launch.wait(); }), "test.soon at sketch.cc:2: soon [launch 1, actor 'soon', device 0.0]");
  EXPECT_EQ(catch_error([&] { launch.wait(); }).kind, ErrorKind::data);
}

TEST(Failure, AnErrorBetweenLaunchesIsReportedByTheNextLaunch) {
  KernelTable table(test_kernels());
  Session session({.workers = 2}, table);
  PlanBuilder s;
  ActorId eager = s.actor("eager", 1), b = s.actor("b");  // eager needs no token, so it acts when the plan is loaded
  s.edge(eager, {b});
  s.start(b);
  s.done(b);
  s.call(eager, "test.fail", {}, {}, {{"at", std::int64_t{1}}});
  int plan = session.load(s.plan);
  session.wait_graph();  // eager has usually failed when this returns; the launch must report the error in any case
  std::string error = error_of([&] { session.launch(plan).wait(); });
  EXPECT_NE(error.find("test.fail at sketch.cc:2: run 1 failed ["), std::string::npos) << error;
  EXPECT_NE(error.find(", actor 'eager', device 0.0]"), std::string::npos) << error;
  session.reload();
  EXPECT_NO_THROW(session.launch(session.load(plain_plan())).wait());
}

// A kernel that reports that it has begun, and then waits until it may continue.
struct Gate {
  std::atomic<bool> entered{false}, open{false};
  KernelRow row(std::string op, bool fails) {
    return test_row(std::move(op), [this, fails](const CallSpec&) -> PreparedKernel {
      return [this, fails](const KernelArgs&) {
        entered = true;
        while (!open) std::this_thread::yield();
        require(!fails, "after the gate");
      };
    });
  }
  void wait() const {
    while (!entered) std::this_thread::yield();
  }
};

TEST(Failure, ALaunchKeepsItsErrorAfterAProtocolError) {
  Gate hold_gate, break_gate;
  KernelTable table({hold_gate.row("hold", false), break_gate.row("break", true)});
  Session session({.workers = 2}, table);
  PlanBuilder s(1, "ahead"), holding_plan(1, "held");
  ActorId eager = s.actor("eager", 1), b = s.actor("b");  // eager needs no token
  s.edge(eager, {b});
  s.start(b);
  s.done(b);
  s.call(eager, "test.break", {}, {});
  session.load(s.plan);
  break_gate.wait();
  ActorId h = holding_plan.actor("h");
  holding_plan.start(h);
  holding_plan.done(h);
  holding_plan.call(h, "test.hold", {}, {});
  int plan = session.load(holding_plan.plan);
  Launch first = session.launch(plan), second = session.launch(plan);
  hold_gate.wait();  // worker 0 has not received the second launch yet
  break_gate.open = true;
  std::string text = error_of([&] { second.wait(); });
  EXPECT_NE(text.find("launch 2 was aborted: "), std::string::npos) << text;
  EXPECT_NE(text.find("after the gate"), std::string::npos) << text;
  hold_gate.open = true;
  session.wait_graph();  // worker 0 has received it
  EXPECT_EQ(error_of([&] { second.wait(); }), text);
  session.reload();
  plan = session.load(holding_plan.plan);
  EXPECT_NO_THROW(session.launch(plan).wait()) << "after a reload launches must run again";
}

// On one worker and with one slot, the input reads piece 0 and its consumer fails. The other two pieces are neither
// read nor computed.
TEST(Failure, APoisonedLaunchReadsNoInputAndRunsNoKernel) {
  struct Counting final : data::Source {
    mutable std::atomic<int> reads{0};
    TensorType type() const override { return {DType::f32, {1}}; }
    void read(std::int64_t, std::span<const std::int64_t>, const TensorRef&) const override { ++reads; }
  };
  std::atomic<int> runs{0};
  KernelTable table({test_row("run", [&](const CallSpec&) -> PreparedKernel {
    return [&](const KernelArgs&) {
      ++runs;
      fail("at once");
    };
  })});
  Session session({.workers = 1}, table);
  const View one(DType::f32, {1});
  PlanBuilder s;
  ActorId in = s.actor("in", 0, 0, BodyKind::input), run = s.actor("run");
  s.start(in, 3);
  RegisterId x = s.edge(in, {run}, 1, 4);
  s.done(run, 3);
  s.plan.actors[in].binding = "x";
  s.plan.actors[in].bound = {in_register(x, one)};
  s.plan.actors[in].slices = {Attrs{{"begin", Ints{0}}, {"shape", Ints{1}}}};
  s.call(run, "test.run", {in_register(x, one)}, {});
  auto source = std::make_shared<Counting>();
  int plan = session.load(s.plan);
  EXPECT_NE(error_of([&] { session.launch(plan, {{"x", {source, 0}}}).wait(); }).find("at once"), std::string::npos);
  EXPECT_EQ(source->reads, 1);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(session.counters().acts, 6) << "all acts must complete";
}

}  // namespace
}  // namespace karez::runtime
