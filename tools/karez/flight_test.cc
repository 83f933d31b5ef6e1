// Tests of flight records of several ranks: reading, merging and the cause of a hang.
#include "tools/karez/flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "karez/base/test_error.h"
#include "karez/base/test_golden.h"
#include "karez/base/text.h"
#include "karez/control/flight_recorder.h"

namespace karez::tools {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

// A rank that has begun its collective and waits for another rank.
FlightRecord rank(int number, int awaited) {
  FlightRecord r;
  r.rank = number;
  r.ranks = 3;
  r.process = cat("alpha, process ", 100 + number);
  r.origin = 1'700'000'000'000'000'000;
  r.failed_at = 5'000'000 + number;
  r.failure = "rank 1 has stopped";
  if (awaited >= RankWait::others) r.state.waits = {{awaited, "a5 'sum' of launch 7, r9"}};
  r.plans = {{0, "step", {{4, "compute", "matmul at net.cc:9"}, {5, "sum", "sum at net.cc:12"}}}};
  auto event = [](std::int64_t time, EventKind kind, int actor) {
    return Event{time, 7, 0, 0, ActorId(actor), RegisterId(), -1, kind, Message::Kind::filled};
  };
  r.workers = {{{event(1'000'000, EventKind::launch_began, -1), event(1'100'000, EventKind::began, 4),
                 event(1'200'000, EventKind::ended, 4), event(1'300'000, EventKind::began, 5)},
                0}};
  return r;
}
constexpr int no_rank = -3;

TEST(Flight, AnAwaitedRankWithoutARecordIsTheCause) {
  EXPECT_TRUE(
      golden(explain_flight({rank(0, 1), rank(2, 0)}),
             "3 ranks, 2 records\n"
             "  rank 1 has no record: it was stopped or killed, or it writes to another folder\n"
             "first failure: rank 0 (alpha, process 100) at 22:13:20.005000 UTC: rank 1 has stopped\n"
             "waits between ranks\n"
             "  rank 0 waited for rank 1: a5 'sum' of launch 7, r9\n"
             "  rank 2 waited for rank 0: a5 'sum' of launch 7, r9\n"
             "cause: rank 1, for which rank 0 waited, has no record\n"
             "last events of each worker, with the time before the failure\n"
             "  rank 0, worker 0: launch 7 began 4.000 ms before\n"
             "  rank 0, worker 0: a5 'sum' (sum at net.cc:12) of launch 7 began 3.700 ms before and had not ended\n"
             "  rank 0, worker 0: a4 'compute' (matmul at net.cc:9) of launch 7 ended last, 3.800 ms before\n"
             "  rank 2, worker 0: launch 7 began 4.000 ms before\n"
             "  rank 2, worker 0: a5 'sum' (sum at net.cc:12) of launch 7 began 3.700 ms before and had not ended\n"
             "  rank 2, worker 0: a4 'compute' (matmul at net.cc:9) of launch 7 ended last, 3.800 ms before\n"));
}

TEST(Flight, TheCauseIsTheRankAtTheEndOfAChainOfWaits) {
  FlightRecord inside = rank(1, no_rank);
  inside.state.current_call = "a4 'compute' of launch 7";
  EXPECT_THAT(explain_flight({rank(0, 2), inside, rank(2, 1)}),
              AllOf(HasSubstr("  rank 1 was inside a4 'compute' of launch 7\n"),
                    HasSubstr("cause: rank 1, for which rank 2 waited, was inside a4 'compute' of launch 7\n"),
                    Not(HasSubstr("cause: rank 2"))));
  EXPECT_THAT(
      explain_flight({rank(0, RankWait::others), rank(1, no_rank), rank(2, 1)}),
      HasSubstr("cause: rank 1, for which ranks 0, 2 waited, waited for no rank: its program had not reached the "
                "call\n"));
}

TEST(Flight, ARankThatWaitedForADataSetIsTheCause) {
  FlightRecord reading = rank(1, no_rank);
  reading.state.waits = {{RankWait::others, "launch 6 has ended here, but not yet on all ranks"},
                         {RankWait::data, "stage map of a data set, which has been running for 2.0 s"}};
  EXPECT_THAT(explain_flight({rank(0, 1), reading, rank(2, 0)}),
              AllOf(HasSubstr("  rank 1 waited for stage map of a data set, which has been running for 2.0 s\n"),
                    HasSubstr("cause: rank 1, for which rank 0 waited, waited for stage map of a data set, which has "
                              "been running for 2.0 s\n")));
}

TEST(Flight, ACycleOfWaitsIsReported) {
  EXPECT_THAT(explain_flight({rank(0, 1), rank(1, 2), rank(2, 0)}), HasSubstr("\nthe waits form a cycle\n"));
}

TEST(Flight, NoCauseIsReportedIfNoRankWaits) {
  EXPECT_THAT(explain_flight({rank(0, no_rank), rank(1, no_rank), rank(2, no_rank)}),
              AllOf(Not(HasSubstr("cause")), Not(HasSubstr("cycle"))));
}

TEST(Flight, RecordsAreSortedByRankAndInvalidRecordsAreReported) {
  const fs::path folder = fs::temp_directory_path() / cat("karez-flights-", getpid());
  EXPECT_THAT(error_of([&] { read_flights(folder.string()); }), HasSubstr("cannot read the folder"));
  fs::create_directories(folder);
  EXPECT_THAT(error_of([&] { read_flights(folder.string()); }), HasSubstr("has no flight record"));
  for (int number : {2, 0}) control::write_flight_record(folder.string(), rank(number, 1));
  std::ofstream(folder / "rank0.txt") << "what it printed\n";
  const auto records = read_flights(folder.string());
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].rank, 0);
  std::ofstream(folder / "rank7.flight") << "karez flight 1\nfoo\n";
  EXPECT_THAT(error_of([&] { read_flights(folder.string()); }),
              HasSubstr("rank7.flight: flight record: line 2: unknown keyword 'foo'"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace karez::tools
