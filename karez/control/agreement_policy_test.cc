// Tests of the decisions of each rank in virtual time: a message from one rank's policy to another arrives immediately.
#include "karez/control/agreement_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <utility>

#include "karez/base/test_error.h"
#include "karez/base/text.h"

namespace karez::control {
namespace {
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Policy = AgreementPolicy;

// The policies of all ranks, and the reports of each to its session.
struct World {
  std::vector<Policy> policies;
  std::vector<std::vector<std::string>> reports;
  std::vector<std::string> warnings;
  Policy::Clock::time_point now{};

  explicit World(int ranks) : reports(static_cast<std::size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank)
      policies.emplace_back(rank, ranks, std::chrono::seconds(30), [](int r) { return cat("rank ", r); });
  }
  int ranks() const { return static_cast<int>(policies.size()); }
  Policy& operator[](int rank) { return policies[static_cast<std::size_t>(rank)]; }
  const std::vector<std::string>& reports_of(int rank) const { return reports[static_cast<std::size_t>(rank)]; }

  void to_rank0(int from, const ControlMessage& message) { execute(0, (*this)[0].take(from, message, now)); }
  void execute(int rank, const Policy::Decision& decision) {
    for (const Policy::Action& action : decision.actions) {
      auto& own_reports = reports[static_cast<std::size_t>(rank)];
      if (const auto* send = std::get_if<Policy::Send>(&action)) {
        for (int to = 0; to < ranks(); ++to)
          if (to != rank && (send->rank == to || send->rank == Policy::Send::all))
            execute(to, (*this)[to].take(rank, send->message, now));
      } else if (const auto* end = std::get_if<Policy::ReportEnd>(&action)) {
        own_reports.push_back(cat("ended ", end->op, end->end.error ? cat(": ", end->end.error->what()) : ""));
      } else if (const auto* invalid = std::get_if<Policy::ReportInvalid>(&action)) {
        own_reports.push_back(cat("invalid ", invalid->op, invalid->on_all_ranks ? " on all ranks" : ""));
      } else if (const auto* failure = std::get_if<Policy::ReportFailure>(&action)) {
        own_reports.push_back(cat("failed: ", failure->error.what()));
      } else {
        warnings.push_back(std::get<Policy::Warn>(action).text);
      }
    }
  }
  void begin(int rank, const OpDescription& op) {
    const Policy::BegunOp begun = (*this)[rank].begin(op);
    if (begun.message) to_rank0(rank, *begun.message);
  }
  void end(int rank, std::uint64_t op, const LaunchEnd& end = {}) { to_rank0(rank, Policy::end(op, {}, end)); }
  ControlMessage request(int rank, const OpDescription& op) {
    const ControlMessage request = (*this)[rank].request(op);
    to_rank0(rank, request);
    return request;
  }
  void fail(int rank, const Error& error, std::optional<int> lost = {}) {
    execute(rank, (*this)[rank].fail(error, lost, now));
  }
  void check_all() {
    for (int rank = 0; rank < ranks(); ++rank) execute(rank, (*this)[rank].check(now));
  }
};

const Error broken_link(ErrorKind::peer, "link to rank 1: it ended");
const OpDescription call{.hash = 7, .what = "a call"}, barrier{.what = "a barrier", .is_barrier = true};

TEST(AgreementPolicy, ABarrierIsOverWhenTheLastRankHasBegunIt) {
  World world(3);
  for (int rank : {2, 0}) world.begin(rank, barrier);
  for (int rank = 0; rank < 3; ++rank) EXPECT_FALSE(world[rank].has_begun(1));
  world.begin(1, barrier);
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(world[rank].has_begun(1));
}

TEST(AgreementPolicy, TheEndOfALaunchIsReportedWhenItHasEndedOnAllRanks) {
  World world(3);
  for (int rank = 0; rank < 3; ++rank) world.begin(rank, call);
  world.end(0, 1), world.end(2, 1);
  EXPECT_THAT(world.reports_of(0), IsEmpty());
  world.end(1, 1);
  for (int rank = 0; rank < 3; ++rank) EXPECT_THAT(world.reports_of(rank), ElementsAre("ended 1"));
}

TEST(AgreementPolicy, IfTwoRanksBeginDifferentOpsAllRanksFailWithAnErrorThatNamesBothOps) {
  World world(3);
  world.begin(0, call), world.begin(1, call);
  world.begin(2, {.hash = 8, .what = "a read"});
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(world.reports_of(rank), ElementsAre("failed: the ranks do not run the same program: rank 0 reaches a "
                                                    "call, but rank 2 reaches a read"));
    ASSERT_TRUE(world[rank].mismatch());
    EXPECT_EQ(world[rank].mismatch()->op, 1u);
    EXPECT_THAT(world[rank].mismatch()->ranks, ElementsAre(0, 2));
    EXPECT_NE(error_of([&] { world[rank].begin(call); }), "no error");
  }
}

TEST(AgreementPolicy, ARankThatReachesTheMismatchedOpLateGetsItsNumberWithoutAnError) {
  World world(3);
  world.begin(0, call);
  world.begin(1, {.hash = 8, .what = "a read"});
  const Policy::BegunOp begun = world[2].begin(call);
  EXPECT_EQ(begun.op, 1u);
  EXPECT_FALSE(begun.message);
}

TEST(AgreementPolicy, ABrokenLinkIsTheFailureOnlyIfNoCauseIsReportedWithinHalfASecond) {
  for (int observer : {0, 2})
    for (bool reported : {false, true}) {
      World world(3);
      world.fail(observer, broken_link);
      EXPECT_EQ(world[observer].next_check(world.now), world.now + milliseconds(500));
      world.now += milliseconds(499);
      world.check_all();
      for (int rank = 0; rank < 3; ++rank) EXPECT_THAT(world.reports_of(rank), IsEmpty());
      if (reported) world.fail(1, Error(ErrorKind::user, "it cannot continue"));
      world.now += milliseconds(1);
      world.check_all();
      for (int rank : {0, 2})
        EXPECT_THAT(world.reports_of(rank),
                    ElementsAre(reported ? "failed: rank 1: it cannot continue" : "failed: link to rank 1: it ended"))
            << "observer " << observer << ", rank " << rank;
    }
}

TEST(AgreementPolicy, OnlyTheFirstFailureIsReported) {
  World world(3);
  world.fail(2, Error(ErrorKind::user, "a"));
  world.fail(1, Error(ErrorKind::user, "b"));
  EXPECT_THAT(world.reports_of(0), ElementsAre("failed: rank 2: a"));
  EXPECT_THAT(world.reports_of(1), ElementsAre("failed: rank 2: a"));
  EXPECT_THAT(world.reports_of(2), ElementsAre("failed: a"));
}

TEST(AgreementPolicy, ALinkThatEndsAfterGoodbyeIsNotAFailure) {
  World world(2);
  ControlMessage goodbye;
  goodbye.kind = ControlMessage::Kind::goodbye;
  world.to_rank0(1, goodbye);
  world.execute(0, world[0].on_broken_link(1, broken_link, world.now));
  EXPECT_FALSE(world[0].failure());
  world.execute(1, world[1].on_broken_link(0, broken_link, world.now));
  EXPECT_TRUE(world[1].failure());
}

TEST(AgreementPolicy, MessagesMayBeDroppedAtOnceForALostRankAndAfterASecondForOtherRanks) {
  World world(3);
  EXPECT_FALSE(world[0].is_lost(1, world.now));
  world.fail(0, broken_link, 1);
  EXPECT_TRUE(world[0].is_lost(1, world.now));
  EXPECT_FALSE(world[0].is_lost(2, world.now + milliseconds(1000)));
  EXPECT_TRUE(world[0].is_lost(2, world.now + milliseconds(1001)));
}

TEST(AgreementPolicy, ARefusedRequestLeavesItsNumberToTheNextOp) {
  World world(2);
  const ControlMessage request = world.request(1, barrier);
  EXPECT_FALSE(world[1].may_begin());
  EXPECT_FALSE(world[1].is_answered(request));
  world.begin(0, call);
  ASSERT_TRUE(world[1].is_answered(request));
  const std::optional<Refusal> refusal = world[1].end_request(request);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->text, "a call");
  EXPECT_EQ(refusal->ranks[1], 0);
  EXPECT_EQ(world[1].request(barrier).round, 1u) << "the next request for this number belongs to the next round";
  world[1].end_request(request);
  EXPECT_EQ(world[1].begin(call).op, 1u);
}

TEST(AgreementPolicy, AnOpThatAllRanksRequestBegins) {
  World world(2);
  const ControlMessage first = world.request(0, barrier), second = world.request(1, barrier);
  EXPECT_TRUE(world[0].is_answered(first) && world[1].is_answered(second));
  for (int rank : {0, 1}) {
    EXPECT_FALSE(world[rank].end_request(rank == 0 ? first : second));
    EXPECT_TRUE(world[rank].has_begun(1));
    EXPECT_EQ(world[rank].begin(call).op, 2u);
  }
}

TEST(AgreementPolicy, AWithdrawnRequestMayBeRepeatedInTheSameRound) {
  World world(2);
  ControlMessage request = world.request(1, barrier);
  request.kind = ControlMessage::Kind::withdrawn;
  world.to_rank0(1, request);
  ASSERT_TRUE(world[1].is_answered(request));
  const std::optional<Refusal> refusal = world[1].end_request(request);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->reason, Refusal::Reason::withdrawn);
  EXPECT_EQ(world[1].request(barrier).round, 0u);
}

TEST(AgreementPolicy, RanksAreCheckedForLongWaitsWhileARequestIsPending) {
  World world(2);
  EXPECT_FALSE(world[0].next_check(world.now));
  world.request(0, barrier);
  EXPECT_EQ(world[0].next_check(world.now), world.now + milliseconds(100));
  world.now += std::chrono::seconds(31);
  world.check_all();
  EXPECT_THAT(world.warnings, ElementsAre("a barrier: rank 1 has not reached it for 31.0 s; other ranks wait"));
}

TEST(AgreementPolicy, ALaunchThatFailsBecauseOfItsDataIsInvalidOnAllRanksAndReportedOnce) {
  World world(2);
  for (int rank : {0, 1}) world.begin(rank, call);
  const std::optional<ControlMessage> message = world[1].invalidate(1);
  ASSERT_TRUE(message);
  EXPECT_FALSE(world[1].invalidate(1));
  world.to_rank0(1, *message);
  EXPECT_THAT(world.reports_of(0), ElementsAre("invalid 1"));
  world.to_rank0(0, *world[0].invalidate(1));
  for (int rank : {0, 1}) EXPECT_THAT(world.reports_of(rank), ElementsAre("invalid 1", "invalid 1 on all ranks"));
}

TEST(AgreementPolicy, ALaunchThatFailedAfterItWroteAVariableFailsAllRanksAndDoesNotEnd) {
  World world(2);
  for (int rank : {0, 1}) world.begin(rank, call);
  world.end(0, 1, {Error(ErrorKind::data, "a label"), false, false});
  world.end(1, 1, {{}, true, true});
  for (int rank : {0, 1}) {
    ASSERT_EQ(world.reports_of(rank).size(), 1u);
    EXPECT_EQ(world.reports_of(rank)[0].find("failed: rank 0: a label; the launch had begun to write"), 0u);
  }
}

}  // namespace
}  // namespace karez::control
