// Tests of the failure state: which failures make the session unusable, and which errors later launches get.
#include "karez/runtime/launch/failure_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "karez/runtime/launch/launch_record.h"

namespace karez::runtime {
namespace {
using ::testing::HasSubstr;

const Error label_error(ErrorKind::data, "label 11", "net.cc:3");

// The record of a launch that has run.
struct Launched : LaunchRecord {
  explicit Launched(std::uint64_t launch_ticket) {
    ticket = launch_ticket;
    index = static_cast<std::int64_t>(launch_ticket);
    number = 0;
  }
};

TEST(FailureState, ALaunchThatFailedBeforeItWroteIsADataFailureUntilItIsCleared) {
  FailureState state;
  Launched launch(3);
  state.record_outcome(launch, {label_error, false, false}, false, false);
  EXPECT_EQ(launch.error->what(), std::string("label 11"));
  EXPECT_FALSE(state.failure());
  ASSERT_TRUE(state.data_failure());
  EXPECT_TRUE(state.is_data_failure(launch));
  state.clear_data_failure(2);
  EXPECT_TRUE(state.data_failure());
  state.clear_data_failure(3);
  EXPECT_FALSE(state.data_failure());
}

TEST(FailureState, ALaunchThatFailedAfterItWroteMakesTheSessionUnusable) {
  FailureState state;
  Launched launch(3);
  state.record_outcome(launch, {label_error, false, true}, false, false);
  ASSERT_TRUE(state.failure());
  EXPECT_THAT(state.failure()->what(), HasSubstr("had begun to write its variables"));
  EXPECT_FALSE(state.is_after_failure(3));
  EXPECT_TRUE(state.is_after_failure(4));
  const Error error = state.unusable_error("read: ");
  EXPECT_THAT(error.what(), HasSubstr("read: the state of this session is unusable, because a launch failed (label"));
  EXPECT_EQ(error.kind, ErrorKind::data);
  EXPECT_EQ(error.where, "net.cc:3");
}

TEST(FailureState, TheFailureOfTheLaunchWithTheSmallestTicketIsKept) {
  FailureState state;
  Launched later(5), earlier(4);
  state.record_outcome(later, {Error("b"), false, true}, false, false);
  state.record_outcome(earlier, {Error("a"), false, true}, false, false);
  EXPECT_THAT(state.failure()->what(), ::testing::StartsWith("a;"));
  EXPECT_TRUE(state.is_after_failure(5));
}

TEST(FailureState, ASkippedLaunchGetsTheErrorOfTheDataFailureOrOfItsProducer) {
  FailureState state;
  Launched first(1), second(2);
  state.record_outcome(first, {label_error, false, false}, false, false);
  state.record_outcome(second, {{}, true, false}, false, false);
  EXPECT_TRUE(second.skipped);
  EXPECT_EQ(second.error->what(), std::string("launch 2 did not run, because an earlier launch failed: label 11"));

  FailureState other;
  Launched consumer(3);
  const auto producer = std::make_shared<LaunchRecord>();
  producer->error = label_error;
  consumer.producers.push_back(producer);
  EXPECT_THAT(other.skipped_error(consumer).what(), HasSubstr("launch 3 did not run, because an earlier"));
  EXPECT_EQ(other.skipped_error(consumer).kind, ErrorKind::data);
}

TEST(FailureState, ASkippedLaunchAfterAReportedFailureIsADataFailureOnlyWithoutOtherRanks) {
  for (bool several_ranks : {false, true}) {
    FailureState state;
    Launched launch(2);
    state.record_outcome(launch, {{}, true, false}, false, several_ranks);
    EXPECT_EQ(state.data_failure().has_value(), !several_ranks);
  }
}

TEST(FailureState, ALaunchThatDidNotBeginAfterAFailureIsSkipped) {
  FailureState state;
  state.set_protocol_error(Error("worker 1: broke"));
  state.set_protocol_error(Error("a later error"));
  EXPECT_EQ(state.failure()->what(), std::string("worker 1: broke"));
  LaunchRecord waiting;
  waiting.ticket = 7;
  state.record_outcome(waiting, {}, true, false);
  EXPECT_THAT(waiting.error->what(), HasSubstr("launch 7 did not run: the state of this session is unusable"));
}

TEST(FailureState, AnAbortedLaunchReportsTheFirstErrorOfAnyRankAndThenItsOwn) {
  FailureState state;
  state.set_rank_failure("\n  rank 0 waited for rank 1: r9");
  state.set_abort(Error(ErrorKind::peer, "rank 1 has stopped"), 4);
  EXPECT_TRUE(state.is_aborted_by_rank());
  EXPECT_TRUE(state.is_after_failure(4));
  EXPECT_FALSE(state.is_after_failure(3));
  Launched silent(4), broken(5);
  EXPECT_EQ(state.abort_error(silent).what(),
            std::string("launch 4: rank 1 has stopped\n  rank 0 waited for rank 1: r9"));
  broken.error = Error(ErrorKind::peer, "the link broke");
  EXPECT_EQ(state.abort_error(broken).what(), std::string("launch 5: rank 1 has stopped\n  here: the link broke"));
}

TEST(FailureState, ClearingKeepsTheAbortUntilTheLinksAreOpenedAgain) {
  FailureState state;
  state.set_rank_failure("");
  state.set_abort(Error("a"), 1);
  state.clear(true);
  EXPECT_FALSE(state.failure());
  EXPECT_TRUE(state.is_aborted_by_rank());
  state.clear(false);
  EXPECT_FALSE(state.is_aborted_by_rank());
}

}  // namespace
}  // namespace karez::runtime
