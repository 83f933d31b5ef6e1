// Tests of launches that fail because of their data. If such a launch wrote no variable, the session continues after
// the error is reported.
#include <gtest/gtest.h>

#include <thread>

#include "karez/base/test_error.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"

namespace karez::runtime {
namespace {

Plan plan_that_fails(const std::string& name) {
  PlanBuilder s;
  ActorId a = s.actor(name);
  s.start(a);
  s.done(a);
  s.call(a, "test.fail", {}, {}, {{"at", std::int64_t{1}}});
  return s.plan;
}

Plan plain_plan() {
  PlanBuilder s;
  ActorId a = s.actor("a");
  s.start(a);
  s.done(a);
  return s.plan;
}

// Increments v. Launch number `at` fails before or after the increment.
Plan counting_plan(bool before, std::int64_t at) {
  const View scalar(DType::f32, {1});
  PlanBuilder s;
  ActorId state = s.actor("state", 0, 0, BodyKind::state), fails = s.actor("fails", 1), count = s.actor("count");
  BlockId block = s.block(BlockKind::variable, 0, 4, "v", "f32[1]");
  s.start(state);
  if (before) s.edge(state, {fails, count}), s.edge(fails, {count}), s.done(count);
  else s.edge(state, {count}), s.edge(count, {fails}), s.done(fails);
  s.call(fails, "test.fail", {}, {}, {{"at", at}});
  s.call(count, "test.count", {in_block(block, scalar)}, {in_block(block, scalar)});
  return s.plan;
}

float read_count(Session& session) {
  return session.read_variable("v", {0, 0, "cpu"}, View(DType::f32, {1})).data<float>()[0];
}

TEST(DataFailure, AFailureBeforeTheFirstWriteChangesNothing) {
  KernelTable table(test_kernels());
  Session session({.workers = 2}, table);
  const int plan = session.load(counting_plan(true, 3));
  session.write_variable("v", {0, 0, "cpu"}, View(DType::f32, {1}), HostArray::of<float>({1}, {0}));
  for (int i = 0; i < 2; ++i) session.launch(plan).wait();
  EXPECT_EQ(error_of([&] { session.launch(plan).wait(); }),
            "test.fail at sketch.cc:2: run 3 failed [launch 3, actor 'fails', device 0.0]");
  EXPECT_EQ(read_count(session), 2);
  for (int i = 0; i < 2; ++i) session.launch(plan).wait();
  EXPECT_EQ(read_count(session), 4);
}

TEST(DataFailure, AFailureAfterTheFirstWriteLeavesTheStateUnusableUntilReloaded) {
  KernelTable table(test_kernels());
  Session session({.workers = 2}, table);
  const int plan = session.load(counting_plan(false, 3));
  session.write_variable("v", {0, 0, "cpu"}, View(DType::f32, {1}), HostArray::of<float>({1}, {0}));
  for (int i = 0; i < 2; ++i) session.launch(plan).wait();
  const std::string error = error_of([&] { session.launch(plan).wait(); });
  EXPECT_EQ(error.find("test.fail at sketch.cc:2: run 3 failed [launch 3, actor 'fails', device 0.0]; the launch "
                       "had begun to write its variables"),
            0u)
      << error;
  EXPECT_TRUE(session.failed());
  EXPECT_EQ(error_of([&] { session.launch(plan); }),
            cat("the state of this session is unusable, because a launch failed (", error, "); reset the world"));
  EXPECT_EQ(error_of([&] { session.launch(plan); }), error_of([&] { session.launch(plan); }))
      << "every later launch must report the same error";
  session.reload();
  EXPECT_NO_THROW(session.launch(session.load(plain_plan())).wait());
}

// If no thread waits for a failed launch, the next launch throws its error and does not run.
TEST(DataFailure, AFailureThatNoThreadWaitedForIsReportedByTheNextLaunch) {
  KernelTable table(test_kernels());
  Session session({.workers = 2}, table);
  const int plan = session.load(counting_plan(true, 1)), plain = session.load(plain_plan());
  session.write_variable("v", {0, 0, "cpu"}, View(DType::f32, {1}), HostArray::of<float>({1}, {0}));
  Launch unread = session.launch(plan);
  while (!unread.done()) std::this_thread::yield();
  EXPECT_EQ(error_of([&] { session.launch(plain); }),
            "an earlier launch failed: test.fail at sketch.cc:2: run 1 failed [launch 1, actor 'fails', device "
            "0.0]; it wrote no variable; the next launch will run");
  EXPECT_NO_THROW(session.launch(plain).wait());
  EXPECT_NO_THROW(session.launch(plan).wait());
  EXPECT_EQ(read_count(session), 1);
  EXPECT_NE(error_of([&] { unread.wait(); }), "no error") << "a wait for the failed launch must still throw its error";
  EXPECT_NO_THROW(session.launch(plan).wait());
}

// Each failure is reported separately: waiting for one launch does not report the failure of the other.
TEST(DataFailure, FailuresOfTwoPlansAreReportedSeparately) {
  KernelTable table(test_kernels());
  Session session({.workers = 2}, table);
  const int first_plan = session.load(plan_that_fails("one")), second_plan = session.load(plan_that_fails("two"));
  Launch first = session.launch(first_plan), second = session.launch(second_plan);
  while (!first.done() || !second.done()) std::this_thread::yield();
  EXPECT_NE(error_of([&] { second.wait(); }).find("actor 'two'"), std::string::npos);
  EXPECT_NE(error_of([&] {
              session.launch(second_plan);
            }).find("an earlier launch failed: test.fail at sketch.cc:2: run 1 failed [launch 1, actor 'one'"),
            std::string::npos);
  EXPECT_NO_THROW(session.launch(first_plan).wait());
  EXPECT_NO_THROW(session.launch(second_plan).wait());
}

}  // namespace
}  // namespace karez::runtime
