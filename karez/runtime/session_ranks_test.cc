// Tests of a session with other ranks. The control is a fake: each test decides what the other rank reports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "karez/base/test_error.h"
#include "karez/comm/rendezvous/peers.h"
#include "karez/comm/rendezvous/sodium.h"
#include "karez/comm/rendezvous/store_server.h"
#include "karez/comm/transport/reactor.h"
#include "karez/data/array_source.h"
#include "karez/runtime/control.h"
#include "karez/runtime/session.h"
#include "karez/runtime/test_plans.h"
#include "karez/runtime/test_wait.h"

namespace karez::runtime {
namespace {
using ::testing::HasSubstr;
using ::testing::StartsWith;

// What this rank has reported to its control, and what the control answers.
struct FakeRanks {
  std::mutex mutex;
  std::vector<std::uint64_t> begun, awaited, invalidated;
  std::vector<std::pair<std::uint64_t, LaunchEnd>> ended;
  std::vector<std::string> failures;
  std::optional<Error> failure;  // thrown by `begin`
  std::optional<Refusal> refusal;
  Control::Callbacks callbacks;  // of the last control
  int controls = 0;
  bool heartbeat = false;

  bool has_ended(std::uint64_t op) {
    std::lock_guard lock(mutex);
    return std::any_of(ended.begin(), ended.end(), [&](const auto& end) { return end.first == op; });
  }
  LaunchEnd end_of(std::uint64_t op) {
    std::lock_guard lock(mutex);
    return std::find_if(ended.begin(), ended.end(), [&](const auto& end) { return end.first == op; })->second;
  }
  std::vector<std::uint64_t> invalidated_ops() {
    std::lock_guard lock(mutex);
    return invalidated;
  }
};

class FakeControl final : public Control {
 public:
  explicit FakeControl(FakeRanks& ranks) : ranks_(ranks) {}
  std::uint64_t begin(const OpDescription& op) override {
    std::lock_guard lock(ranks_.mutex);
    if (ranks_.failure) throw *ranks_.failure;
    ranks_.begun.push_back(op.hash);
    return ranks_.begun.size();
  }
  void await_begun(std::uint64_t op, const std::function<void()>&) override {
    std::lock_guard lock(ranks_.mutex);
    ranks_.awaited.push_back(op);
  }
  void end(std::uint64_t op, const RankTime&, const LaunchEnd& end) override {
    std::lock_guard lock(ranks_.mutex);
    ranks_.ended.emplace_back(op, end);
  }
  void invalidate(std::uint64_t op) override {
    std::lock_guard lock(ranks_.mutex);
    ranks_.invalidated.push_back(op);
  }
  std::variant<std::uint64_t, Refusal> request(const OpDescription& op, const std::function<void()>&) override {
    if (ranks_.refusal) return *ranks_.refusal;
    return begin(op);
  }
  void fail(const Error& error) override {
    {
      std::lock_guard lock(ranks_.mutex);
      ranks_.failures.emplace_back(error.what());
    }
    ranks_.callbacks.failed(error, {});
  }
  std::optional<std::pair<int, int>> differing_ranks(std::uint64_t op) const override { return std::pair{0, int(op)}; }
  void start_heartbeat() override { ranks_.heartbeat = true; }
  void stop_heartbeat() override { ranks_.heartbeat = false; }

 private:
  FakeRanks& ranks_;
};

// Rank 0 of two ranks. Rank 1 does not exist: no plan of these tests has a link to it.
class SessionRanks : public ::testing::Test {
 protected:
  SessionRanks()
      : token_(comm::random_token()),
        store_(reactor_, token_),
        client_(store_.address(), token_, 0, "test", comm::Seconds(30)),
        peers_(reactor_, client_, token_, {.rank = 0, .ranks = 2}),
        table_([this] {
          std::vector<KernelRow> rows = test_kernels();
          rows.push_back(test_row(
              "run", [this](const CallSpec&) -> PreparedKernel { return [this](const KernelArgs&) { ++runs_; }; }));
          return rows;
        }()),
        session_({.workers = 2,
                  .peers = &peers_,
                  .make_control =
                      [this](Control::Callbacks callbacks) {
                        ++ranks_.controls;
                        ranks_.callbacks = std::move(callbacks);
                        return std::make_unique<FakeControl>(ranks_);
                      }},
                 table_) {
    session_.add(timer_.kernel());
  }

  // A plan of one call.
  Plan plan_of(const std::string& kernel, Attrs attrs = {}) {
    PlanBuilder s(1, kernel);
    ActorId a = s.actor(kernel);
    s.start(a);
    s.done(a);
    s.call(a, "test." + kernel, {}, {}, std::move(attrs));
    return s.plan;
  }
  int load(const std::string& kernel, Attrs attrs = {}) { return session_.load(plan_of(kernel, std::move(attrs))); }
  Launch launch(int plan) { return session_.launch(plan, {}, {}, session_.begin_op({})); }
  // Launches the plan, waits for its end on this rank, and lets it end on all ranks.
  void run(int plan, const LaunchEnd& end = {}) {
    const std::uint64_t op = session_.begin_op({});
    Launch launch = session_.launch(plan, {}, {}, op);
    ASSERT_TRUE(eventually([&] { return ranks_.has_ended(op); }));
    ranks_.callbacks.ended(op, end);
    launch.wait();
  }

  comm::Reactor reactor_;
  comm::Token token_;
  comm::StoreServer store_;
  comm::StoreClient client_;
  comm::Peers peers_;
  FakeRanks ranks_;
  std::atomic<int> runs_ = 0;
  ManualTimer timer_;
  KernelTable table_;
  Session session_;
};

TEST_F(SessionRanks, ALaunchIsOverWhenItHasEndedOnAllRanks) {
  const int plan = load("run");
  EXPECT_TRUE(ranks_.heartbeat);
  Launch first = launch(plan), second = launch(plan);
  ASSERT_TRUE(eventually([&] { return ranks_.has_ended(2); }));
  EXPECT_EQ(runs_, 2);
  EXPECT_FALSE(ranks_.end_of(1).error || ranks_.end_of(1).skipped);
  EXPECT_FALSE(first.done());
  ranks_.callbacks.ended(1, {});
  EXPECT_TRUE(first.done());
  EXPECT_FALSE(second.done());
  ranks_.callbacks.ended(2, {});
  second.wait();
}

TEST_F(SessionRanks, AnErrorOfAnotherRankFailsTheLaunchHereAndLaterLaunchesRun) {
  const int plan = load("run");
  EXPECT_EQ(error_of([&] { run(plan, {.error = Error(ErrorKind::data, "rank 1: bad label")}); }), "rank 1: bad label");
  EXPECT_FALSE(session_.failed());
  EXPECT_NO_THROW(run(plan));
  EXPECT_EQ(runs_, 2);
}

TEST_F(SessionRanks, AfterALaunchThatWroteVariablesOnAnotherRankEveryLaunchIsAnError) {
  const int plan = load("run");
  EXPECT_THAT(error_of([&] { run(plan, {.error = Error(ErrorKind::data, "rank 1: bad label"), .has_written = true}); }),
              StartsWith("rank 1: bad label; the launch had begun to write its variables"));
  EXPECT_TRUE(session_.failed());
  ranks_.callbacks.failed(Error(ErrorKind::data, "rank 1: bad label"), {});
  EXPECT_THAT(error_of([&] { launch(plan); }), StartsWith("the state of this session is unusable"));
}

TEST_F(SessionRanks, TheEndOfAFailedLaunchIsReportedWithItsError) {
  const int plan = load("fail", {{"at", std::int64_t{1}}});
  Launch failed = launch(plan);
  ASSERT_TRUE(eventually([&] { return ranks_.has_ended(1); }));
  EXPECT_THAT(ranks_.end_of(1).error->what(), HasSubstr("run 1 failed"));
  EXPECT_FALSE(ranks_.end_of(1).has_written);
  EXPECT_EQ(ranks_.invalidated_ops(), std::vector<std::uint64_t>{1}) << "the other ranks must poison the launch too";
  EXPECT_FALSE(failed.done());
  ranks_.callbacks.ended(1, ranks_.end_of(1));
  EXPECT_THAT(error_of([&] { failed.wait(); }), HasSubstr("run 1 failed"));
}

TEST_F(SessionRanks, ALaunchThatFailedOnAnotherRankBeforeItIsMadeHereRunsNoKernel) {
  ranks_.callbacks.invalidated(1, false);  // before there is a worker
  EXPECT_EQ(ranks_.invalidated_ops(), std::vector<std::uint64_t>{1}) << "the other ranks wait for this rank";
  const int plan = load("run");
  ranks_.callbacks.invalidated(2, false);
  ASSERT_TRUE(eventually([&] { return ranks_.invalidated_ops().size() >= 2; }));
  Launch first = launch(plan), second = launch(plan);
  ASSERT_TRUE(eventually([&] { return ranks_.has_ended(1) && ranks_.has_ended(2); }));
  for (std::uint64_t op : {1, 2}) {
    EXPECT_TRUE(ranks_.end_of(op).skipped);
    EXPECT_FALSE(ranks_.end_of(op).error);
    ranks_.callbacks.invalidated(op, true);
    ranks_.callbacks.ended(op, {.error = Error(ErrorKind::data, cat("rank 1 failed in op ", op)), .skipped = true});
  }
  EXPECT_EQ(error_of([&] { first.wait(); }), "rank 1 failed in op 1");
  EXPECT_EQ(error_of([&] { second.wait(); }), "rank 1 failed in op 2");
  EXPECT_EQ(runs_, 0);
  EXPECT_NO_THROW(run(plan));
  EXPECT_EQ(runs_, 1);
}

TEST_F(SessionRanks, ALaunchWithoutDevicesOfThisRankIsOverWhenTheOtherRanksHaveEndedIt) {
  Launch good = session_.launch_remote(session_.begin_op({})), bad = session_.launch_remote(session_.begin_op({}));
  EXPECT_TRUE(ranks_.has_ended(1) && ranks_.has_ended(2));
  EXPECT_FALSE(good.done());
  ranks_.callbacks.ended(1, {});
  ranks_.callbacks.ended(2, {.error = Error(ErrorKind::data, "rank 1: no file")});
  EXPECT_NO_THROW(good.wait());
  EXPECT_EQ(error_of([&] { bad.wait(); }), "rank 1: no file");
}

TEST_F(SessionRanks, TheFailureOfARankFailsEndedAndRunningLaunchesAndEveryLaterCall) {
  const int quick = load("run"), slow = load("timer");
  Launch ended = launch(quick), running = launch(slow);
  ASSERT_TRUE(eventually([&] { return ranks_.has_ended(1); }));
  ASSERT_TRUE(timer_.active(1));
  ranks_.callbacks.failed(Error(ErrorKind::peer, "rank 1 has exited"), 1);
  ASSERT_TRUE(ended.done()) << "no other rank will report the end of the launch";
  EXPECT_THAT(error_of([&] { ended.wait(); }), StartsWith("launch 1: rank 1 has exited"));
  timer_.tick();
  EXPECT_THAT(error_of([&] { running.wait(); }), StartsWith("launch 2: rank 1 has exited"));
  EXPECT_FALSE(ranks_.has_ended(2)) << "the other ranks have been told of the failure already";
  EXPECT_EQ(peers_.lost(), 1);
  EXPECT_THAT(error_of([&] { session_.launch(quick); }),
              StartsWith("the state of this session is unusable, because a launch failed (rank 1 has exited)"));
  EXPECT_TRUE(session_.failed());
}

TEST_F(SessionRanks, AfterALeaveAndAJoinNothingOfTheFailureIsLeft) {
  ranks_.callbacks.invalidated(3, false);
  Launch launch_of_slow = launch(load("timer"));
  ASSERT_TRUE(timer_.active(1));
  ranks_.callbacks.failed(Error(ErrorKind::peer, "rank 1 has exited"), 1);
  timer_.tick();
  EXPECT_THAT(error_of([&] { launch_of_slow.wait(); }), StartsWith("launch 1: rank 1 has exited"));
  session_.reload();
  session_.leave_ranks();
  EXPECT_FALSE(ranks_.heartbeat);
  EXPECT_TRUE(session_.failed());
  EXPECT_EQ(error_of([&] { session_.begin_op({}); }),
            "this world has left the other ranks and has not joined them again: reset it, or restart the job");
  session_.join_ranks();
  EXPECT_TRUE(ranks_.heartbeat);
  EXPECT_FALSE(session_.failed());
  EXPECT_EQ(ranks_.controls, 2);
  const int plan = load("run");
  for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(run(plan));  // op 3 of the new ranks is not poisoned
  EXPECT_EQ(runs_, 3);
}

TEST_F(SessionRanks, AnInvalidLaunchOfThisRankIsReportedToTheOtherRanks) {
  const int plan = load("run");
  const std::uint64_t op = session_.begin_op({});
  const std::string error = error_of([&] { session_.launch_in_order(plan, {{}}, op); });
  EXPECT_EQ(error, "plan 'run' has 0 inputs, but is launched with 1");
  EXPECT_EQ(ranks_.failures, std::vector<std::string>{error});
  EXPECT_TRUE(session_.failed());
  ::testing::internal::CaptureStderr();
  session_.end(Session::ShutdownMode::graceful);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "the program knows the error";
}

TEST_F(SessionRanks, OpsAreRequestedAwaitedAndRefusedByTheControl) {
  EXPECT_EQ(std::get<std::uint64_t>(session_.request_op({.hash = 7})), 1u);
  EXPECT_EQ(ranks_.begun, std::vector<std::uint64_t>{7});
  session_.await_op(1);
  EXPECT_EQ(ranks_.awaited, std::vector<std::uint64_t>{1});
  ranks_.refusal = Refusal{Refusal::Reason::withdrawn, {0, 1}, "late"};
  const std::variant<std::uint64_t, Refusal> answer = session_.request_op({.hash = 8});
  EXPECT_EQ(std::get<Refusal>(answer).text, "late");
  EXPECT_EQ(session_.differing_ranks(5), (std::pair{0, 5}));
  ranks_.failure = Error(ErrorKind::peer, "rank 1 began another op");
  EXPECT_EQ(error_of([&] { session_.begin_op({}); }), "rank 1 began another op");
}

TEST_F(SessionRanks, AnImmediateEndTellsTheOtherRanksTheReason) {
  session_.end(Session::ShutdownMode::immediate, "the program raised an exception");
  EXPECT_EQ(ranks_.failures, std::vector<std::string>{"the program raised an exception"});
  EXPECT_FALSE(ranks_.heartbeat);
  EXPECT_THAT(error_of([&] { session_.begin_op({}); }), StartsWith("this world has ended"));
}

TEST(SessionEnd, AnImmediateEndAbortsTheRunningLaunchWithItsReason) {
  ManualTimer timer;
  KernelTable table({});
  Session session({.workers = 2}, table);
  session.add(timer.kernel());
  PlanBuilder s;
  ActorId first = s.actor("first"), second = s.actor("second");
  s.start(first);
  s.edge(first, {second});
  s.done(second);
  for (ActorId actor : {first, second}) s.call(actor, "test.timer", {}, {});
  Launch launch = session.launch(session.load(s.plan));
  ASSERT_TRUE(timer.active(1));
  std::thread end([&] { session.end(Session::ShutdownMode::immediate, "the program raised an exception"); });
  pause();
  timer.tick();
  end.join();
  EXPECT_EQ(error_of([&] { launch.wait(); }), "launch 1 was aborted: the program raised an exception");
  EXPECT_TRUE(timer.active(0)) << "the second call must not run";
}

TEST(Session, InputsInOrderAreThoseOfTheNamesAndTheirNumberIsChecked) {
  KernelTable table({});
  Session session({}, table);
  PlanBuilder s(1, "two inputs");
  for (const char* name : {"b", "a"}) {
    ActorId input = s.actor(name, 0, 0, BodyKind::input), fetch = s.actor(cat(name, ".out"), 0, 0, BodyKind::fetch);
    s.start(input);
    RegisterId x = s.edge(input, {fetch}, 1, 16);
    s.done(fetch);
    s.plan.actors[input].binding = name;
    s.plan.actors[input].bound = {in_register(x, test_vector)};
    s.plan.actors[input].slices = {Attrs{{"begin", Ints{0}}, {"shape", Ints{4}}}};
    s.plan.actors[fetch].binding = cat(name, ".out");
    s.plan.actors[fetch].bound = {in_register(x, test_vector)};
  }
  const int plan = session.load(s.plan);
  const std::vector<std::string> names = session.input_names(plan);
  ASSERT_EQ(names.size(), 2u);
  std::vector<LaunchInput> inputs;
  for (float value : {1.0f, 2.0f})
    inputs.push_back(Feed{data::array_source(HostArray::of<float>({4}, std::vector<float>(4, value))), 0});
  Launch launch = session.launch_in_order(plan, inputs);
  EXPECT_EQ(launch.output(names[0] + ".out").data<float>()[0], 1);
  EXPECT_EQ(launch.output(names[1] + ".out").data<float>()[0], 2);
  inputs.pop_back();
  EXPECT_EQ(error_of([&] { session.launch_in_order(plan, inputs); }),
            "plan 'two inputs' has 2 inputs, but is launched with 1");
}

}  // namespace
}  // namespace karez::runtime
