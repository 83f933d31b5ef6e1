// Tests of hang diagnoses in virtual time, with ranks that send heartbeats, stop, compute and wait, and with detectors
// whose ticks are late.
#include "karez/control/hang_detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "karez/base/text.h"

namespace karez::control {
namespace {
using ::testing::HasSubstr;
using Kind = HangDiagnosis::Kind;

constexpr HangTimeouts limits{2, 10};

// A world of ranks with scripted heartbeats, observed by one of them.
struct Ranks {
  explicit Ranks(int ranks, int own_rank = 0)
      : detector(ranks, own_rank, limits, [](int rank) { return cat("rank ", rank, " (alpha)"); }),
        states(static_cast<std::size_t>(ranks)),
        sends_heartbeats(static_cast<std::size_t>(ranks), true),
        hosts_answer(static_cast<std::size_t>(ranks), true) {}

  RankState& operator[](int rank) { return states[static_cast<std::size_t>(rank)]; }
  void set_wait(int rank, int awaited_rank) {
    states[static_cast<std::size_t>(rank)].waits = {{awaited_rank, "a5 'sum' of launch 7, r9"}};
  }
  void stop(int rank, bool host_answers = true) {
    sends_heartbeats[static_cast<std::size_t>(rank)] = false;
    hosts_answer[static_cast<std::size_t>(rank)] = host_answers;
  }

  std::optional<HangDiagnosis> tick(double seconds = limits.tick()) {
    now += seconds;
    for (std::size_t rank = 0; rank < states.size(); ++rank)
      if (sends_heartbeats[rank]) detector.on_heartbeat(static_cast<int>(rank), states[rank]);
    return detector.tick(now, [&](int rank) { return hosts_answer[static_cast<std::size_t>(rank)]; });
  }
  // Runs for this time, or until the first diagnosis, and returns it.
  std::optional<HangDiagnosis> run(double seconds) {
    for (const double until = now + seconds; now < until;)
      if (auto diagnosis = tick()) return diagnosis;
    return std::nullopt;
  }

  HangDetector detector;
  std::vector<RankState> states;
  std::vector<bool> sends_heartbeats, hosts_answer;
  double now = 1000;
};

TEST(HangDetector, AStoppedRankIsReportedWithTheRanksThatWaitForIt) {
  for (int own_rank : {0, 1}) {
    Ranks ranks(3, own_rank);
    const int stopped = own_rank == 0 ? 2 : 0;
    ranks.set_wait(own_rank, stopped);
    EXPECT_FALSE(ranks.run(5));
    ranks.stop(stopped);
    const double begin = ranks.now;
    auto diagnosis = ranks.run(60);
    ASSERT_TRUE(diagnosis);
    EXPECT_EQ(diagnosis->kind, Kind::unresponsive);
    EXPECT_EQ(diagnosis->rank, stopped);
    EXPECT_GT(ranks.now - begin, limits.peer_timeout);
    EXPECT_LE(ranks.now - begin, limits.peer_timeout + 2 * limits.tick());
    EXPECT_EQ(diagnosis->text,
              cat("rank ", stopped, " (alpha) has stopped: no heartbeat for 2.2 s, though its host answers\n  rank ",
                  own_rank, " waits for rank ", stopped, ": a5 'sum' of launch 7, r9"));
  }
}

// The kernel of this host reports a stopped process long before the heartbeat timeout expires.
TEST(HangDetector, ARankStoppedByASignalIsReportedAfterThreeSeconds) {
  constexpr HangTimeouts slow{30, 300};
  for (int own_rank : {0, 1}) {
    const int stopped = own_rank == 0 ? 2 : 0;
    HangDetector detector(3, own_rank, slow, [](int rank) { return cat("rank ", rank, " (alpha)"); });
    double now = 1000;
    const auto tick = [&](bool halted, bool waits, double seconds = 1) {
      RankState state;
      if (waits) state.waits = {{stopped, "a5 'sum' of launch 7, r9"}};
      detector.on_heartbeat(own_rank, state);
      detector.set_halted(stopped, halted);
      return detector.tick(now += seconds, [](int) { return true; });
    };
    tick(false, true);
    for (int i = 0; i < 2; ++i) EXPECT_FALSE(tick(true, true)) << i;
    EXPECT_FALSE(tick(false, true)) << "the stopped process was resumed";
    for (int i = 0; i < 20; ++i) EXPECT_FALSE(tick(true, false)) << "no rank waits for it";
    EXPECT_FALSE(tick(true, true, 9)) << "this tick was late: this process may have been stopped too";
    for (int i = 0; i < 2; ++i) EXPECT_FALSE(tick(true, true)) << i;
    const auto diagnosis = tick(true, true);
    ASSERT_TRUE(diagnosis);
    EXPECT_EQ(diagnosis->kind, Kind::halted);
    EXPECT_EQ(diagnosis->rank, stopped);
    EXPECT_EQ(diagnosis->text,
              cat("rank ", stopped, " (alpha) has stopped: a signal stopped its process 3.0 s ago\n  rank ", own_rank,
                  " waits for rank ", stopped, ": a5 'sum' of launch 7, r9"));
  }
}

TEST(HangDetector, AStoppedRankIsNotReportedIfTheOnlyRankThatWaitsForItIsStoppedToo) {
  HangDetector detector(3, 0, {30, 300}, [](int rank) { return cat("rank ", rank); });
  RankState waits;
  waits.waits = {{1, "a"}};
  detector.on_heartbeat(2, waits);
  for (int i = 0; i < 20; ++i) {
    for (int rank : {1, 2}) detector.set_halted(rank, true);
    EXPECT_FALSE(detector.tick(1000 + i, [](int) { return true; }));
  }
}

TEST(HangDetector, TheCallInWhichARankStoppedIsReported) {
  Ranks ranks(2);
  ranks.set_wait(0, 1);
  ranks[1].current_call = "a3 'conv' of launch 7";
  ranks.tick();
  ranks.stop(1);
  EXPECT_THAT(ranks.run(60)->text, HasSubstr("at its last heartbeat it was running a3 'conv' of launch 7"));
}

TEST(HangDetector, AStoppedRankThatNoRankWaitsForIsNotReported) {
  Ranks ranks(3);
  ranks.stop(1);
  EXPECT_FALSE(ranks.run(600));
  ranks.set_wait(2, RankWait::others);
  EXPECT_EQ(ranks.tick()->rank, 1);
}

TEST(HangDetector, WaitsOfRanksWithoutHeartbeatsAreIgnored) {
  Ranks ranks(3);
  ranks.set_wait(1, 2);
  ranks.set_wait(2, 1);
  ranks.tick();
  ranks.stop(1);
  ranks.stop(2);
  EXPECT_FALSE(ranks.run(600)) << "both may be resumed later";
}

TEST(HangDetector, ARankWhoseHostDoesNotAnswerIsUnreachable) {
  Ranks ranks(2);
  ranks.set_wait(0, 1);
  ranks.stop(1, false);
  const double begin = ranks.now;
  auto diagnosis = ranks.run(60);
  ASSERT_TRUE(diagnosis);
  EXPECT_EQ(diagnosis->kind, Kind::unreachable);
  EXPECT_THAT(diagnosis->text, HasSubstr("rank 1 (alpha) cannot be reached: no heartbeat for 3.5 s"));
  EXPECT_LE(ranks.now - begin, limits.peer_timeout + 2);
}

TEST(HangDetector, ARankThatHasDisconnectedIsNotReportedWithoutHeartbeats) {
  Ranks ranks(2);
  ranks.set_wait(0, 1);
  ranks.stop(1);
  ranks.detector.on_disconnect(1);
  EXPECT_FALSE(ranks.run(600));
}

TEST(HangDetector, ADetectorWhoseOwnTickWasLateStartsWaitingAgain) {
  Ranks ranks(2);
  ranks.set_wait(0, 1);
  ranks.stop(1);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(ranks.run(limits.peer_timeout - limits.tick())) << i;
    EXPECT_FALSE(ranks.tick(50)) << "stopped together with the other rank: a heartbeat may arrive soon";
  }
  EXPECT_TRUE(ranks.run(limits.peer_timeout + limits.tick() * 2));
}

TEST(HangDetector, PausingAllRanksTogetherIsNotAHang) {
  Ranks ranks(4);
  for (int rank = 0; rank < 4; ++rank) ranks.set_wait(rank, (rank + 1) % 4);
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    ++ranks[i % 4].progress;
    ASSERT_FALSE(ranks.run(1));
    // All ranks pause, including the detector's rank.
    ranks.now += std::uniform_real_distribution<double>(0.1, 100)(random);
  }
}

TEST(HangDetector, ARankThatComputesForLongBetweenLaunchesIsNotAHang) {
  Ranks ranks(3);
  ranks.set_wait(0, 2);
  ranks.set_wait(1, RankWait::others);
  EXPECT_FALSE(ranks.run(100000)) << "rank 2 sends heartbeats, waits for no rank, and is in no call";
}

// The state of a rank whose program waits for a stage that has been running for this long.
RankState data_wait(double seconds) {
  RankState out;
  out.data_seconds = seconds;
  out.waits = {{RankWait::others, "launch 6 has ended here, but not yet on all ranks"},
               {RankWait::data, cat("stage map(decode) of a data set, which has been running for ", seconds, " s")}};
  return out;
}

TEST(HangDetector, ARankThatWaitsForDataIsReportedAsSuchAndAsAHangAfterTheCallTimeout) {
  for (int reading : {0, 1}) {
    const int other = 1 - reading;
    Ranks ranks(2);
    ranks.set_wait(other, reading);
    const std::string text =
        cat("rank ", reading, " (alpha) waits for stage map(decode) of a data set, which has been ");
    int warnings = 0;
    for (double seconds = 0; seconds < limits.call_timeout; seconds += limits.tick()) {
      ranks[reading] = data_wait(seconds);
      if (const auto diagnosis = ranks.tick()) {
        EXPECT_EQ(diagnosis->kind, Kind::slow_call);
        EXPECT_EQ(diagnosis->text, cat(text,
                                       "running for 2.25 s, and others wait; after 10.0 s "
                                       "(WorldOptions::call_timeout) it counts as a hang"));
        ++warnings;
      }
    }
    EXPECT_EQ(warnings, 1);
    ranks[reading] = data_wait(10.5);
    const auto diagnosis = ranks.tick();
    ASSERT_TRUE(diagnosis);
    EXPECT_EQ(diagnosis->kind, Kind::stuck_call);
    EXPECT_EQ(diagnosis->rank, reading);
    EXPECT_EQ(diagnosis->text, cat(text, "running for 10.5 s\n  rank ", other, " waits for rank ", reading,
                                   ": a5 'sum' of launch 7, r9"));
  }
}

TEST(HangDetector, RanksThatWaitForDataWaitForNoRank) {
  Ranks ranks(2);
  for (int rank : {0, 1}) ranks[rank] = data_wait(100), ranks[rank].waits.erase(ranks[rank].waits.begin());
  EXPECT_FALSE(ranks.run(600)) << "no rank waits for another";
  ranks.stop(1);
  EXPECT_FALSE(ranks.run(600));
  Ranks short_stages(3);
  short_stages.set_wait(0, 2);
  short_stages.set_wait(1, 0);
  short_stages[2] = data_wait(0.5);
  EXPECT_FALSE(short_stages.run(600)) << "the stages of rank 2 are executed again and again";
  short_stages.stop(2);
  EXPECT_THAT(short_stages.run(600)->text, HasSubstr("\n  rank 1 waits for rank 0: a5"));
}

TEST(HangDetector, TheWaitForADataSetIsListedAmongTheWaits) {
  Ranks ranks(3);
  ranks.set_wait(0, 2);
  ranks[1] = data_wait(1.5);
  ranks.tick();
  ranks.stop(2);
  EXPECT_THAT(ranks.run(60)->text,
              HasSubstr("\n  rank 1 waits for stage map(decode) of a data set, which has been running for 1.5 s"));
}

TEST(HangDetector, RepeatedLongCallsOfARankGiveOneWarning) {
  Ranks ranks(3);
  ranks.set_wait(0, 2);
  int warnings = 0;
  for (int launch = 0; launch < 5; ++launch) {
    ranks[2].current_call = cat("a3 'compute' of launch ", launch, " (matmul at net.cc:12)");
    ++ranks[2].progress;
    const double until = ranks.now + 2 * limits.peer_timeout;
    while (ranks.now < until)
      if (auto diagnosis = ranks.tick()) {
        EXPECT_EQ(diagnosis->kind, Kind::slow_call);
        ++warnings;
      }
  }
  EXPECT_EQ(warnings, 1);
}

TEST(HangDetector, ACallThatDoesNotEndIsReportedFirstAsAWarningAndThenAsAHang) {
  Ranks ranks(3);
  ranks.set_wait(0, 2);
  ranks.set_wait(1, 0);
  ranks.tick();
  ranks[2].current_call = "a3 'compute' of launch 7 (matmul at net.cc:12)";
  const double begin = ranks.now;
  auto diagnosis = ranks.run(60);
  ASSERT_TRUE(diagnosis);
  EXPECT_EQ(diagnosis->kind, Kind::slow_call);
  EXPECT_THAT(diagnosis->text,
              HasSubstr("rank 2 (alpha) has been inside a3 'compute' of launch 7 (matmul at net.cc:12) for 2."));
  EXPECT_LE(ranks.now - begin, limits.peer_timeout + 2 * limits.tick());
  diagnosis = ranks.run(60);
  ASSERT_TRUE(diagnosis);
  EXPECT_EQ(diagnosis->kind, Kind::stuck_call) << "expected one warning before the hang";
  EXPECT_EQ(diagnosis->rank, 2);
  EXPECT_THAT(diagnosis->text,
              HasSubstr("\n  rank 0 waits for rank 2: a5 'sum' of launch 7, r9\n  rank 1 waits for rank 0: "));
  EXPECT_LE(ranks.now - begin, limits.call_timeout + 2 * limits.tick());
}

TEST(HangDetector, SuccessiveCallsAndCallsThatNoRankWaitsForAreNotHangs) {
  Ranks ranks(2);
  ranks[1].current_call = "a long call";
  EXPECT_FALSE(ranks.run(600)) << "no rank waits for it";
  ranks.set_wait(0, 1);
  for (int call = 0; call < 100; ++call) {
    ranks[1].current_call = cat("call ", call);
    ++ranks[1].progress;
    ASSERT_FALSE(ranks.run(limits.peer_timeout - limits.tick()));
  }
  for (int i = 0; i < 100; ++i) {
    ++ranks[1].progress;  // another device of the rank makes progress
    ASSERT_FALSE(ranks.run(limits.peer_timeout - limits.tick()));
  }
}

TEST(HangDetector, ADeadlockIsReportedWhenNoRankMakesProgress) {
  auto circle = [] {
    Ranks ranks(3);
    for (int rank = 0; rank < 3; ++rank) ranks.set_wait(rank, (rank + 1) % 3);
    return ranks;
  };
  Ranks ranks = circle();
  auto diagnosis = ranks.run(60);
  ASSERT_TRUE(diagnosis);
  EXPECT_EQ(diagnosis->kind, Kind::deadlock);
  EXPECT_EQ(diagnosis->rank, -1);
  EXPECT_GT(ranks.now - 1000, 2 * limits.peer_timeout);
  EXPECT_THAT(diagnosis->text, HasSubstr("\n  rank 2 waits for rank 0: "));
  for (int variant = 0; variant < 3; ++variant) {
    Ranks other = circle();
    if (variant == 0) other[1].can_progress = true;
    if (variant == 1) other[1].waits.clear();
    for (int i = 0; i < 100; ++i) {
      if (variant == 2) ++other[1].progress;
      ASSERT_FALSE(other.run(1)) << variant;
    }
  }
}

// Heartbeats have random delays below the limit, and some ticks of the detector are late. No rank may be reported.
TEST(HangDetector, RandomDelaysAreNotReportedAsHangs) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Ranks ranks(4);
    for (int rank = 0; rank < 4; ++rank) ranks.set_wait(rank, (rank + 1) % 4);
    std::vector<double> until(4, 0);
    for (int step = 0; step < 500; ++step) {
      for (int rank = 0; rank < 4; ++rank) {
        auto at = static_cast<std::size_t>(rank);
        if (ranks.now > until[at] + 1 && random() % 20 == 0) until[at] = ranks.now + 1.4;
        ranks.sends_heartbeats[at] = ranks.now >= until[at];
        if (ranks.sends_heartbeats[at]) ++ranks[rank].progress;
      }
      const double delay = random() % 10 == 0 ? 0.2 : 0;
      ASSERT_FALSE(ranks.tick(limits.tick() + delay)) << "seed " << seed << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace karez::control
