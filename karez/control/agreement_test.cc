// Tests of how ranks agree on ops and report failures to each other. Several ranks run in one process, each with its
// own threads.
#include "karez/control/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "karez/base/hash.h"
#include "karez/comm/rendezvous/peers.h"
#include "karez/comm/rendezvous/store_server.h"
#include "karez/runtime/session.h"

namespace karez::control {
namespace {
using comm::Address;
using comm::Seconds;
using comm::Token;

// One rank, and a record of the calls of its callbacks.
class Rank {
 public:
  Rank(const Address& address, const Token& token, int rank, int ranks, Seconds warn_after)
      : client_(address, token, rank, cat("test ", rank), Seconds(20)),
        peers_(reactor_, client_, token, {.rank = rank, .ranks = ranks, .timeout = Seconds(20)}) {
    auto failed = [this](const Error& error, std::optional<int>) {
      std::lock_guard lock(mutex_);
      failures_.emplace_back(error.what());
      changed_.notify_all();
    };
    auto ended = [this](std::uint64_t op, const LaunchEnd& end) {
      std::lock_guard lock(mutex_);
      ++ended_;
      ends_.push_back(cat(op, end.error ? cat(" ", end.error->what()) : std::string(), end.skipped ? " skipped" : "",
                          end.has_written ? " wrote" : ""));
      changed_.notify_all();
    };
    auto invalidated = [this](std::uint64_t op, bool on_all_ranks) {
      std::lock_guard lock(mutex_);
      invalidated_.push_back(cat(op, on_all_ranks ? " by all" : ""));
      changed_.notify_all();
    };
    const auto open = [this](int other, comm::Notifier& notifier) {
      return peers_.control(other).open(hash_text("agreement"), ControlLinks::depth, notifier);
    };
    agreement_ = std::make_unique<Agreement>(
        Agreement::Options{rank, ranks, open, warn_after, [](int other) { return cat("rank ", other); }},
        Agreement::Callbacks{ended, invalidated, failed});
  }

  Agreement& agreement() { return *agreement_; }
  void leave() { agreement_.reset(); }
  std::string failure() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(20), [&] { return !failures_.empty(); })) return "no failure";
    return failures_.size() == 1 ? failures_[0] : cat("failed ", failures_.size(), " times");
  }
  // Waits up to 20 s until all ranks have ended at least `ops` ops. Returns the number of ops that they have ended.
  int ended(int ops) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return ended_ >= ops; });
    return ended_;
  }
  std::vector<std::string> ends() {
    std::lock_guard lock(mutex_);
    return ends_;
  }
  // Waits up to 20 s for at least `min_count` reports of failed launches. Returns all reports so far.
  std::vector<std::string> invalidated(std::size_t min_count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return invalidated_.size() >= min_count; });
    return invalidated_;
  }

 private:
  comm::Reactor reactor_;
  comm::StoreClient client_;
  comm::Peers peers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> failures_, ends_, invalidated_;
  int ended_ = 0;
  std::unique_ptr<Agreement> agreement_;
};

class World {
 public:
  explicit World(int ranks, Seconds warn_after = Seconds(30)) : token_(comm::random_token()) {
    { auto free = comm::listen_at(address_, 1); }
    server_ = std::make_unique<Server>(address_, token_);
    for (int r = 0; r < ranks; ++r) ranks_.emplace_back();
    on_all([&](std::size_t r) {
      ranks_[r] = std::make_unique<Rank>(address_, token_, static_cast<int>(r), ranks, warn_after);
    });
  }
  ~World() {
    on_all([&](std::size_t r) { ranks_[r]->leave(); });
  }
  Rank& operator[](std::size_t rank) { return *ranks_[rank]; }

 private:
  struct Server {
    Server(const Address& address, const Token& token) : store(reactor, token, address) {}
    comm::Reactor reactor;
    comm::StoreServer store;
  };
  void on_all(const std::function<void(std::size_t)>& body) {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < ranks_.size(); ++r) threads.emplace_back([&, r] { body(r); });
  }
  Address address_;
  Token token_;
  std::unique_ptr<Server> server_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

const Error link_ended(ErrorKind::peer, "link to rank 1: it ended");

// A link of rank `observer` ends, and then rank `failing_rank`, if not negative, fails with `text`. Returns the
// failure that all ranks report. The end of a link is not the cause, so the observer waits for the report of the
// failing rank.
std::string report_of_broken_link(int observer, int failing_rank, const std::string& text) {
  World world(3);
  world[static_cast<std::size_t>(observer)].agreement().fail(link_ended);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // within the half second that the report may take
  if (failing_rank >= 0) world[static_cast<std::size_t>(failing_rank)].agreement().fail(Error(ErrorKind::user, text));
  std::string out = world[0].failure();
  for (std::size_t r = 1; r < 3; ++r)
    if (const std::string other = world[r].failure(); other.find(out) == out.npos && out.find(other) == out.npos)
      out += " | " + other;
  return out;
}

TEST(Agreement, ARankThatSeesABrokenLinkWaitsForTheReportOfTheRankThatFailed) {
  for (int observer : {0, 2}) {
    std::string out;
    for (int attempt = 0; attempt < 5 && out.find("cannot continue") == out.npos; ++attempt)
      out = report_of_broken_link(observer, 1, "it cannot continue");
    EXPECT_EQ(out, "rank 1: it cannot continue") << "seen by rank " << observer;
  }
}

TEST(Agreement, ABrokenLinkIsTheFailureIfNoRankReportsACause) {
  for (int observer : {0, 2})
    EXPECT_EQ(report_of_broken_link(observer, -1, ""), "link to rank 1: it ended") << "seen by rank " << observer;
}

TEST(Agreement, AFailureOtherThanABrokenLinkIsReportedAtOnce) {
  World world(3);
  world[2].agreement().fail(Error(ErrorKind::user, "a"));
  EXPECT_EQ(world[0].failure(), "rank 2: a");
  EXPECT_EQ(world[1].failure(), "rank 2: a");
  world[1].agreement().fail(Error(ErrorKind::user, "b"));
  EXPECT_EQ(world[2].failure(), "a");
}

TEST(Agreement, ALaunchThatFailsBecauseOfItsDataEndsWithTheSameErrorOnAllRanksAndLaterOpsRun) {
  World world(3);
  for (std::size_t rank = 0; rank < 3; ++rank)
    EXPECT_EQ(world[rank].agreement().begin({.hash = 1, .what = "a call"}), 1u);
  world[2].agreement().invalidate(1);
  world[2].agreement().invalidate(1);  // has no effect
  for (std::size_t rank = 0; rank < 3; ++rank)
    EXPECT_THAT(world[rank].invalidated(1), testing::ElementsAre("1")) << "rank " << rank;
  for (std::size_t rank : {0, 1}) world[rank].agreement().invalidate(1);
  for (std::size_t rank = 0; rank < 3; ++rank)
    EXPECT_THAT(world[rank].invalidated(2), testing::ElementsAre("1", "1 by all")) << "rank " << rank;
  world[2].agreement().end(1, {}, {Error(ErrorKind::data, "a label", ""), false, false});
  for (std::size_t rank : {0, 1}) world[rank].agreement().end(1, {}, {{}, true, false});
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(world[rank].ended(1), 1);
    EXPECT_THAT(world[rank].ends(), testing::ElementsAre("1 rank 2: a label skipped"));
    EXPECT_EQ(world[rank].agreement().begin({.hash = 1, .what = "a call"}), 2u) << "later ops must run";
  }
  for (std::size_t rank = 0; rank < 3; ++rank) world[rank].agreement().end(2);
  for (std::size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(world[rank].ended(2), 2);
}

TEST(Agreement, NoMessageIsLostIfMoreAreSentThanALinkHolds) {
  constexpr int ops = 5000;
  World world(2);
  std::vector<std::jthread> threads;
  for (std::size_t rank : {0, 1})
    threads.emplace_back([&, rank] {
      for (int i = 0; i < ops; ++i)
        world[rank].agreement().end(world[rank].agreement().begin({.hash = 7, .what = "an op"}), {});
    });
  threads.clear();
  for (std::size_t rank : {0, 1}) EXPECT_EQ(world[rank].ended(ops), ops) << "rank " << rank;
}

// Requests an op. Returns "begun 3", or the rank that caused the refusal.
std::string request(Rank& rank, std::string_view what, const std::function<void()>& while_waiting = {}) {
  const auto result = rank.agreement().request({.what = what, .is_barrier = true}, while_waiting);
  if (const auto* op = std::get_if<std::uint64_t>(&result)) return cat("begun ", *op);
  const Refusal& refusal = std::get<Refusal>(result);
  switch (refusal.reason) {
    case Refusal::Reason::other: return cat("rank ", refusal.ranks[1], " reaches ", refusal.text);
    case Refusal::Reason::withdrawn: return cat("rank ", refusal.ranks[1], " withdrew");
  }
  return "?";
}

void launch(Rank& rank) { rank.agreement().end(rank.agreement().begin({.hash = 7, .what = "a call"})); }

TEST(Agreement, ARequestOfOneRankIsRefusedAndAllRanksContinue) {
  constexpr int rounds = 50;
  for (std::size_t requester : {0, 1, 2}) {
    World world(3);
    std::vector<std::string> answers[3];
    {
      std::vector<std::jthread> threads;
      for (std::size_t rank : {0, 1, 2})
        threads.emplace_back([&, rank] {
          for (int i = 0; i < rounds; ++i) {
            if (rank == requester) answers[rank].push_back(request(world[rank], "a read"));
            launch(world[rank]);
          }
          answers[rank].push_back(request(world[rank], "a barrier"));
        });
    }
    for (std::size_t rank : {0, 1, 2}) {
      EXPECT_EQ(answers[rank].back(), cat("begun ", rounds + 1));
      answers[rank].pop_back();
      EXPECT_EQ(answers[rank].size(), rank == requester ? rounds : 0u);
      for (const std::string& result : answers[rank]) EXPECT_TRUE(result.ends_with(" reaches a call")) << result;
      EXPECT_EQ(world[rank].ended(rounds), rounds) << "rank " << rank << ", if rank " << requester << " requests";
    }
  }
}

TEST(Agreement, ARequestWaitsForTheOtherRanksAndReportsTheMissingRank) {
  World world(3, Seconds(0.3));
  std::string first, second, third;
  ::testing::internal::CaptureStderr();
  {
    std::jthread rank0([&] { first = request(world[0], "a read"); }),
        rank1([&] { second = request(world[1], "a read"); });
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    third = request(world[2], "a read");
  }
  for (const std::string& text : {first, second, third}) EXPECT_EQ(text, "begun 1");
  const std::string output = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(output.starts_with("karez warning: a read: rank 2 has not reached it for 0.") &&
              output.ends_with(" s; other ranks wait\n"))
      << output;
  EXPECT_EQ(output.find("warning"), output.rfind("warning")) << "expected a single warning, got " << output;
}

// A callback throws while the rank waits, as it does on Ctrl-C.
TEST(Agreement, AnInterruptedRequestIsWithdrawnAndAllRanksContinue) {
  for (std::size_t rank : {0, 1}) {
    World world(2);
    bool thrown = false;
    try {
      request(world[rank], "a read", [] { throw std::runtime_error("interrupted"); });
    } catch (const std::runtime_error&) { thrown = true; }
    EXPECT_TRUE(thrown);
    {
      std::jthread other([&] { EXPECT_EQ(request(world[1 - rank], "a read"), "begun 1"); });
      EXPECT_EQ(request(world[rank], "a read"), "begun 1") << "the repeated request must begin";
    }
    for (std::size_t each : {0, 1}) launch(world[each]);
    for (std::size_t each : {0, 1}) EXPECT_EQ(world[each].ended(1), 1);
  }
}

TEST(Agreement, AFailureEndsARequest) {
  World world(2);
  std::string text;
  {
    std::jthread requester([&] {
      try {
        request(world[1], "a read");
      } catch (const Error& error) { text = error.what(); }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    world[0].agreement().fail(Error(ErrorKind::user, "it cannot continue"));
  }
  EXPECT_EQ(text, "rank 0: it cannot continue");
}

}  // namespace
}  // namespace karez::control
