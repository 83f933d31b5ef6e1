// Tests of the control of two ranks in one process, which are connected through sockets: heartbeats, hangs, barriers
// and the ends of launches.
#include "karez/control/rank_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "karez/base/text.h"
#include "karez/comm/rendezvous/sodium.h"
#include "karez/comm/rendezvous/store_server.h"
#include "karez/comm/transport/reactor.h"

namespace karez::control {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// One of two ranks, with what its control has reported.
struct Rank {
  Rank(const comm::Address& store, const comm::Token& token, int rank)
      : client(store, token, rank, cat("test ", rank), comm::Seconds(30)),
        peers(reactor, client, token, {.rank = rank, .ranks = 2}) {}
  void open(const HangTimeouts& timeouts) {
    control = rank_control(peers, timeouts)({
        .ended = [this](std::uint64_t op, const LaunchEnd&) { add(cat("ended ", op)); },
        .invalidated = [this](std::uint64_t op, bool all) { add(cat("invalidated ", op, all ? " on all ranks" : "")); },
        .failed =
            [this](const Error& error, std::optional<int> lost) {
              add(cat("failed (", name_of(error.kind), ", lost ", lost.value_or(-1), "): ", error.what()));
            },
        .state =
            [this](bool waits, double) {
              std::lock_guard lock(mutex);
              if (progresses) ++state.progress;
              RankState copy = state;
              if (!waits) copy.waits.clear();
              return copy;
            },
    });
  }
  void add(std::string report) {
    std::lock_guard lock(mutex);
    reports.push_back(std::move(report));
  }
  std::vector<std::string> all_reports() {
    std::lock_guard lock(mutex);
    return reports;
  }
  void set_state(bool makes_progress, int awaited, std::string what) {
    std::lock_guard lock(mutex);
    progresses = makes_progress;
    state.waits = {{awaited, std::move(what)}};
  }
  bool has_reported(std::size_t count) {
    for (const auto until = Clock::now() + std::chrono::seconds(30); Clock::now() < until;
         std::this_thread::sleep_for(std::chrono::milliseconds(2)))
      if (all_reports().size() >= count) return true;
    return false;
  }

  comm::Reactor reactor;
  comm::StoreClient client;
  comm::Peers peers;
  std::mutex mutex;
  std::vector<std::string> reports;
  RankState state{.progress = 1};  // not the initial progress of the heartbeat
  bool progresses = true;
  std::unique_ptr<runtime::Control> control;
};

void in_parallel(const std::function<void(int rank)>& body) {
  std::thread other([&] { body(1); });
  body(0);
  other.join();
}

class RankControls : public ::testing::Test {
 protected:
  RankControls() : token_(comm::random_token()), store_(reactor_, token_) {
    for (int r = 0; r < 2; ++r) ranks_.push_back(std::make_unique<Rank>(store_.address(), token_, r));
  }
  void open(const HangTimeouts& timeouts, bool heartbeats) {
    in_parallel([&](int r) {
      rank(r).open(timeouts);
      if (heartbeats) rank(r).control->start_heartbeat();
    });
  }
  ~RankControls() override {
    in_parallel([&](int r) { rank(r).control.reset(); });
  }
  Rank& rank(int r) { return *ranks_[static_cast<std::size_t>(r)]; }

  comm::Reactor reactor_;
  comm::Token token_;
  comm::StoreServer store_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

TEST_F(RankControls, RanksThatWaitForEachOtherWithoutProgressFailWithBothWaits) {
  open({.peer_timeout = 1}, true);
  const std::string what = cat("a receive of ", std::string(100, 'x'));
  rank(0).set_state(false, 1, "the end of launch 7");
  rank(1).set_state(false, 0, what);
  const auto begin = Clock::now();
  for (int r = 0; r < 2; ++r) {
    ASSERT_TRUE(rank(r).has_reported(1));
    EXPECT_THAT(rank(r).all_reports()[0],
                AllOf(HasSubstr("failed (hang, lost "), HasSubstr(": the end of launch 7"), HasSubstr(what)));
  }
  EXPECT_GT(Clock::now() - begin, std::chrono::milliseconds(900));
}

TEST_F(RankControls, RanksWithProgressAreNotReported) {
  open({.peer_timeout = 0.5}, true);
  rank(0).set_state(true, 1, "the end of launch 7");
  rank(1).set_state(true, 0, "the end of launch 7");
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  for (int r = 0; r < 2; ++r) EXPECT_EQ(rank(r).all_reports(), std::vector<std::string>{});
}

TEST_F(RankControls, ARankThatStopsItsHeartbeatSaysGoodbyeAndIsNotReported) {
  open({.peer_timeout = 0.5}, true);
  const auto begin = Clock::now();
  rank(1).control->stop_heartbeat();
  EXPECT_LT(Clock::now() - begin, std::chrono::milliseconds(900)) << "rank 0 must answer the goodbye";
  rank(0).set_state(false, 1, "the end of launch 7");
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  for (int r = 0; r < 2; ++r) EXPECT_EQ(rank(r).all_reports(), std::vector<std::string>{});
}

TEST_F(RankControls, ABarrierWaitsForTheOtherRankAndCallsTheProgramMeanwhile) {
  open({}, false);
  for (int late : {0, 1}) {
    const std::uint64_t op = rank(1 - late).control->begin({.what = "a barrier", .is_barrier = true});
    int calls = 0;
    EXPECT_THROW(rank(1 - late).control->await_begun(op, [] { throw std::runtime_error("interrupted"); }),
                 std::runtime_error);
    std::atomic<bool> has_begun = false;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      has_begun = true;
      EXPECT_EQ(rank(late).control->begin({.what = "a barrier", .is_barrier = true}), op);
      rank(late).control->await_begun(op, {});
    });
    rank(1 - late).control->await_begun(op, [&] { ++calls; });
    EXPECT_TRUE(has_begun);
    EXPECT_GE(calls, 1);
    other.join();
  }
}

TEST_F(RankControls, ARequestWaitsForTheOtherRankAndCallsTheProgramMeanwhile) {
  open({}, false);
  for (int late : {0, 1}) {
    const auto request = [&](int r, const std::function<void()>& while_waiting) {
      return std::get<std::uint64_t>(rank(r).control->request({.hash = 5, .what = "f(x)"}, while_waiting));
    };
    int calls = 0;
    std::uint64_t late_op = 0;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      late_op = request(late, {});
    });
    const std::uint64_t op = request(1 - late, [&] { ++calls; });
    other.join();
    EXPECT_EQ(op, late_op);
    EXPECT_GE(calls, 2);
  }
}

TEST_F(RankControls, ALaunchEndsWhenBothRanksHaveEndedItAndFailsIfOneRankFails) {
  open({}, false);
  for (int r = 0; r < 2; ++r) EXPECT_EQ(rank(r).control->begin({.what = "launch"}), 1u);
  rank(0).control->end(1, {}, {});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(rank(0).all_reports(), std::vector<std::string>{});
  rank(1).control->end(1, {}, {});
  for (int r = 0; r < 2; ++r) {
    ASSERT_TRUE(rank(r).has_reported(1));
    EXPECT_EQ(rank(r).all_reports()[0], "ended 1");
    EXPECT_EQ(rank(r).control->differing_ranks(1), std::nullopt);
  }
}

TEST_F(RankControls, DifferentOpsFailBothRanksAndAreNamed) {
  open({}, false);
  rank(0).control->begin({.hash = 1, .what = "f(x)"});
  rank(1).control->begin({.hash = 2, .what = "g(x)"});
  for (int r = 0; r < 2; ++r) {
    ASSERT_TRUE(rank(r).has_reported(1));
    EXPECT_THAT(rank(r).all_reports()[0], AllOf(HasSubstr("f(x)"), HasSubstr("g(x)")));
    ASSERT_TRUE(rank(r).control->differing_ranks(1));
    EXPECT_EQ(rank(r).control->differing_ranks(1)->first + rank(r).control->differing_ranks(1)->second, 1);
    EXPECT_EQ(rank(r).control->differing_ranks(2), std::nullopt);
  }
}

}  // namespace
}  // namespace karez::control
