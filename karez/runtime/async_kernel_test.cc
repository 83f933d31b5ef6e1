// Tests of asynchronous kernels and of the wait graph.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

#include "karez/base/test_error.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"

namespace karez::runtime {
namespace {

Plan timer_chain(int pieces, int slots) {
  PlanBuilder s;
  ActorId a = s.actor("a", 0), b = s.actor("b", 1), c = s.actor("c", 2);
  s.start(a, pieces);
  s.edge(a, {b}, slots);
  s.edge(b, {c}, slots);
  s.done(c, pieces);
  for (ActorId actor : {a, b, c}) s.call(actor, "test.timer", {}, {});
  return s.plan;
}

TEST(AsyncKernels, ThreeUnitActorsWithTwoSlotsAreAllActiveAtTimeTwo) {
  constexpr int pieces = 20;
  for (int workers : {1, 2}) {
    ManualTimer timer;
    KernelTable table({});
    Session session({.workers = workers}, table);
    session.add(timer.kernel());
    Launch launch = session.launch(session.load(timer_chain(pieces, 2)));
    for (int time = 0; time < pieces + 2; ++time) {
      std::size_t due =
          static_cast<std::size_t>(std::min({time + 1, 3, pieces + 2 - time}));  // the pipeline fills, is full, drains
      ASSERT_TRUE(timer.active(due)) << "expected " << due << " active actors at time " << time << "\n"
                                     << session.wait_graph();
      timer.tick();
    }
    launch.wait();
    EXPECT_EQ(timer.time, pieces + 2) << "expected one unit for each piece, and two units to fill the pipeline";
  }
}

TEST(AsyncKernels, KernelsOverlapOnRealThreads) {
  constexpr int pieces = 10, unit_ms = 30;
  KernelTable table({});
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::atomic<int> active = 0, max_active = 0;
  auto begin = std::chrono::steady_clock::now();
  {
    Session session({}, table);
    session.add({"test.timer", [&](const KernelArgs&, const Completion& done) {
                   std::lock_guard lock(mutex);
                   max_active = std::max(max_active.load(), ++active);
                   threads.emplace_back([done, &active, unit = std::chrono::milliseconds(unit_ms)] {
                     std::this_thread::sleep_for(unit);
                     --active;
                     done();
                   });
                 }});
    session.launch(session.load(timer_chain(pieces, 2))).wait();
  }
  auto elapsed = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(threads.size(), 3u * pieces);
  EXPECT_GE(elapsed, (pieces + 2) * unit_ms);
  EXPECT_GE(max_active, 2) << "kernels ran one after the other";
}

TEST(AsyncKernels, OneStreamRunsOneActAtATime) {
  ManualTimer timer;
  KernelTable table({});
  Session session({.workers = 1}, table);
  session.add(timer.kernel());
  PlanBuilder s;  // two independent actors on one stream
  for (const char* name : {"a", "b"}) {
    ActorId a = s.actor(name);
    s.start(a, 2);
    s.done(a, 2);
    s.call(a, "test.timer", {}, {});
  }
  Launch launch = session.launch(session.load(s.plan));
  for (int act = 0; act < 4; ++act) {
    ASSERT_TRUE(timer.active(1)) << act;
    EXPECT_FALSE(launch.done());
    timer.tick();
  }
  launch.wait();
}

TEST(AsyncKernels, AllActsDeferredByABusyStreamRunWhenItIsFree) {
  ManualTimer timer;
  std::vector<std::string> run_order;  // the names of the actors in the order in which they acted
  std::vector<KernelRow> rows;
  rows.push_back(test_row("note", [&](const CallSpec& c) -> PreparedKernel {
    return [&run_order, name = c.attrs.text("name")](const KernelArgs&) { run_order.push_back(name); };
  }));
  KernelTable table(std::move(rows));
  Session session({.workers = 1}, table);
  session.add(timer.kernel());
  PlanBuilder s;  // on one stream, the timer's actor runs first, and the others become ready during its act
  ActorId first = s.actor("timer");
  s.start(first);
  s.done(first);
  s.call(first, "test.timer", {}, {});
  s.plan.actors[first].priority = -1;
  for (auto [name, priority] : {std::pair{"a", 2}, std::pair{"b", 0}, std::pair{"c", 1}}) {
    ActorId a = s.actor(name);
    s.start(a);
    s.done(a);
    s.call(a, "test.note", {}, {}, {{"name", std::string(name)}});
    s.plan.actors[a].priority = priority;
  }
  int plan = session.load(s.plan);
  for (int i = 0; i < 2; ++i) {
    run_order.clear();
    Launch launch = session.launch(plan);
    ASSERT_TRUE(timer.active(1));
    session.wait_graph();  // the worker answers after all acts that can run have run
    EXPECT_TRUE(run_order.empty()) << "no act may run while the stream is busy";
    timer.tick();
    for (int wait = 0; wait < 20000 && !launch.done(); ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!launch.done()) {
      std::fprintf(stderr, "a deferred actor was forgotten\n%s", session.wait_graph().c_str());
      std::abort();  // the destructor of the session would wait forever
    }
    EXPECT_EQ(run_order, (std::vector<std::string>{"b", "c", "a"})) << "expected the order of priorities";
  }
}

TEST(AsyncKernels, WaitsThrowErrorsOfAsyncKernelsAndAnAsyncKernelMustBeTheOnlyCall) {
  KernelTable table(test_kernels());
  Session session({}, table);
  session.add({"test.refuse", [](const KernelArgs&, const Completion& done) {
                 done(std::make_exception_ptr(Error("the line is closed")));
               }});
  session.add({"test.throw", [](const KernelArgs&, const Completion&) { fail("no such device"); }});
  for (auto [kernel, text] :
       {std::pair{"test.refuse", "the line is closed"}, std::pair{"test.throw", "no such device"}}) {
    PlanBuilder s;
    ActorId a = s.actor("a");
    s.start(a);
    s.done(a);
    s.call(a, kernel, {}, {});
    Launch launch = session.launch(session.load(s.plan));
    EXPECT_NE(error_of([&] { launch.wait(); }).find(cat(kernel, " at sketch.cc:2: ", text)), std::string::npos);
    session.reload();
    s.call(a, kernel, {}, {});
    EXPECT_EQ(error_of([&] { session.load(s.plan); }),
              cat("actor 'a': kernel ", kernel, " is asynchronous, so it must be the only call of its actor"));
  }
}

TEST(WaitGraph, TheGraphListsTheWaitsBetweenActors) {
  ManualTimer timer;
  KernelTable table({});
  Session session({.workers = 2}, table);
  session.add(timer.kernel());
  EXPECT_EQ(session.wait_graph(), "no worker: no plan is loaded\n");
  Launch launch = session.launch(session.load(timer_chain(2, 1)));
  ASSERT_TRUE(timer.active(1));
  EXPECT_NE(session.wait_graph().find("a0 'a' is running"), std::string::npos) << session.wait_graph();
  timer.tick();
  ASSERT_TRUE(timer.active(1)) << "b must act while a waits for its slot";
  std::string graph = session.wait_graph();
  EXPECT_NE(graph.find("a0 'a' waits for a free slot of r1 by a1 'b'"), std::string::npos) << graph;
  while (!launch.done()) {
    timer.tick();
    std::this_thread::yield();
  }
  EXPECT_EQ(session.wait_graph().find("waits"), std::string::npos);
}

TEST(WaitGraph, AWorkerInsideAKernelIsReportedWithoutWaiting) {
  std::mutex gate;
  gate.lock();
  std::vector<KernelRow> rows;
  rows.push_back(test_row("block", [&](const CallSpec&) -> PreparedKernel {
    return [&](const KernelArgs&) { std::lock_guard lock(gate); };
  }));
  KernelTable table(std::move(rows));
  Session session({.workers = 1}, table);
  PlanBuilder s;
  ActorId a = s.actor("stuck");
  s.start(a);
  s.done(a);
  s.call(a, "test.block", {}, {});
  Launch launch = session.launch(session.load(s.plan));
  std::string graph;
  for (int i = 0; i < 100 && graph.find("is inside a0 'stuck'") == std::string::npos; ++i) graph = session.wait_graph();
  EXPECT_NE(graph.find("worker 0:\nis inside a0 'stuck'"), std::string::npos) << graph;
  gate.unlock();
  launch.wait();
}

}  // namespace
}  // namespace karez::runtime
