// What the ranks of a world hear of each other's failures: three ranks in one process, each with threads of its own.
#include "runtime/agreement.h"

#include <gtest/gtest.h>

#include <thread>

#include "comm/store_server.h"
#include "runtime/session.h"

namespace karez::runtime {
namespace {
using comm::Address;
using comm::Token;

// One rank, and what it was told.
class Rank {
 public:
  Rank(const Address& address, const Token& token, int rank, int ranks)
      : client_(address, token, rank, cat("test ", rank), Seconds(20)),
        peers_(reactor_, client_, token, {.rank = rank, .ranks = ranks, .timeout = Seconds(20)}) {
    auto failed = [this](const Error& error, std::optional<int>) {
      std::lock_guard lock(mutex_);
      told_.emplace_back(error.what());
      changed_.notify_all();
    };
    auto ended = [this](std::uint64_t) {
      std::lock_guard lock(mutex_);
      ++ended_;
      changed_.notify_all();
    };
    agreement_ = std::make_unique<Agreement>(peers_, Agreement::Tell{ended, failed});
  }

  Agreement& agreement() { return *agreement_; }
  void leave() { agreement_.reset(); }
  std::string told() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(20), [&] { return !told_.empty(); })) return "nothing";
    return told_.size() == 1 ? told_[0] : cat("told ", told_.size(), " times");
  }
  // How many ops it was told that all have ended: when these are so many, or after 20 s.
  int ended(int ops) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return ended_ >= ops; });
    return ended_;
  }

 private:
  comm::Reactor reactor_;
  comm::StoreClient client_;
  comm::Peers peers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> told_;
  int ended_ = 0;
  std::unique_ptr<Agreement> agreement_;
};

class World {
 public:
  explicit World(int ranks) : token_(comm::random_token()) {
    { auto free = comm::listen_at(address_, 1); }
    server_ = std::make_unique<Server>(address_, token_);
    for (int r = 0; r < ranks; ++r) ranks_.emplace_back();
    on_all([&](std::size_t r) { ranks_[r] = std::make_unique<Rank>(address_, token_, static_cast<int>(r), ranks); });
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

// The end of a link is no cause: whoever sees it waits for the word of the rank that failed. `sees` is who saw the end first.
std::string heard(int sees, int fails, const std::string& word) {
  World world(3);
  world[static_cast<std::size_t>(sees)].agreement().fail(link_ended);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // of the half second that the word may take
  if (fails >= 0) world[static_cast<std::size_t>(fails)].agreement().fail(Error(ErrorKind::user, word));
  std::string out = world[0].told();
  for (std::size_t r = 1; r < 3; ++r)
    if (const std::string other = world[r].told(); other.find(out) == out.npos && out.find(other) == out.npos) out += " | " + other;
  return out;
}

TEST(Agreement, TheEndOfALinkWaitsForTheWordOfWhoFailed) {
  for (int sees : {0, 2}) {
    std::string out;
    for (int attempt = 0; attempt < 5 && out.find("cannot go on") == out.npos; ++attempt) out = heard(sees, 1, "it cannot go on");
    EXPECT_EQ(out, "rank 1: it cannot go on") << "seen by rank " << sees;
  }
}

TEST(Agreement, TheEndOfALinkIsTheWordWhereNoOtherComes) {
  for (int sees : {0, 2}) EXPECT_EQ(heard(sees, -1, ""), "link to rank 1: it ended") << "seen by rank " << sees;
}

TEST(Agreement, AFailureThatIsNoPeersEndIsToldAtOnce) {
  World world(3);
  world[2].agreement().fail(Error(ErrorKind::user, "a"));
  EXPECT_EQ(world[0].told(), "rank 2: a");
  EXPECT_EQ(world[1].told(), "rank 2: a");
  world[1].agreement().fail(Error(ErrorKind::user, "b"));
  EXPECT_EQ(world[2].told(), "a");
}

TEST(Agreement, NoNoteIsLostWhereMoreAreSaidThanALinkHolds) {
  constexpr int ops = 5000;
  World world(2);
  std::vector<std::jthread> threads;
  for (std::size_t rank : {0, 1})
    threads.emplace_back([&, rank] {
      for (int i = 0; i < ops; ++i) world[rank].agreement().end(world[rank].agreement().begin(7, "an op"), {});
    });
  threads.clear();
  for (std::size_t rank : {0, 1}) EXPECT_EQ(world[rank].ended(ops), ops) << "rank " << rank;
}

// What asking throws; "begun" where the op began.
std::string asked(Agreement& agreement, std::string_view what) {
  try {
    const std::uint64_t op = agreement.ask(1, what);
    agreement.end(op);
    return "begun";
  } catch (const Error& error) { return error.what(); }
}

// What the ranks do, each on a thread; what each asks for, or begins where it starts with '!', comes out for each.
std::vector<std::string> at_once(World& world, const std::vector<std::string>& does) {
  std::vector<std::string> out(does.size());
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < does.size(); ++rank)
    threads.emplace_back([&, rank] {
      Agreement& agreement = world[rank].agreement();
      if (does[rank].empty()) return;
      if (does[rank][0] != '!') out[rank] = asked(agreement, does[rank]);
      else agreement.end(agreement.begin(2, does[rank]));
    });
  return out;
}

TEST(Agreement, WhatAllRanksAskForBegins) {
  World world(3);
  for (int op = 1; op <= 50; ++op) {
    EXPECT_EQ(at_once(world, {"a read", "a read", "a read"}), (std::vector<std::string>(3, "begun")));
    for (std::size_t rank : {0, 1, 2}) EXPECT_EQ(world[rank].ended(op), op);
  }
}

// In whatever order they come, and whichever rank it is, several times: the ops of the others keep their numbers, and nothing fails.
TEST(Agreement, WhatOneRankAloneAsksForIsRefusedAndAllGoOn) {
  World world(3);
  int ops = 0;
  for (std::size_t alone : {0, 1, 2})
    for (int late : {0, 1, 2, 3}) {
      std::vector<std::jthread> threads;
      std::string told;
      for (std::size_t rank : {0, 1, 2})
        threads.emplace_back([&, rank] {
          Agreement& agreement = world[rank].agreement();
          if (rank == alone) {
            if (late == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
            told = asked(agreement, "a read");
            if (late == 3) EXPECT_NE(asked(agreement, "another read"), "begun") << "at the same place";
          } else if (late != 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(late == 2 ? 20 * static_cast<int>(rank) : 10));
          }
          agreement.end(agreement.begin(2, "a call"));
        });
      threads.clear();
      ++ops;
      EXPECT_EQ(told.find("a read takes all ranks, but rank "), 0u) << told;
      EXPECT_NE(told.find(" comes to a call; it was not begun on any rank, and all of them can go on"), told.npos) << told;
      for (std::size_t rank : {0, 1, 2}) EXPECT_EQ(world[rank].ended(ops), ops) << "rank " << rank;
    }
  EXPECT_EQ(at_once(world, {"a read", "a read", "a read"}), (std::vector<std::string>(3, "begun")));
}

std::string refused(const std::string& what, const std::string& other) {
  return what + " takes all ranks, but " + other + "; it was not begun on any rank, and all of them can go on";
}

// What most ranks ask for waits for those that are refused.
TEST(Agreement, OfDifferentThingsThatAllAskForOneIsKept) {
  World world(3);
  int ops = 0;
  for (std::size_t alone : {0, 1, 2}) {
    std::vector<std::string> told(3);
    std::vector<std::jthread> threads;
    for (std::size_t rank : {0, 1, 2})
      threads.emplace_back([&, rank] {
        if (rank == alone) told[rank] = asked(world[rank].agreement(), "a read of x");
        EXPECT_EQ(asked(world[rank].agreement(), "a read of y"), "begun") << "rank " << rank;
      });
    threads.clear();
    EXPECT_EQ(told[alone], refused("a read of x", alone == 0 ? "rank 1 comes to a read of y" : "rank 0 comes to a read of y"));
    ++ops;
    for (std::size_t rank : {0, 1, 2}) EXPECT_EQ(world[rank].ended(ops), ops);
  }
}

TEST(Agreement, OfTwoThingsThatAsManyAskForTheOneWithoutRank0IsKept) {
  World world(2);
  std::jthread other([&] { EXPECT_EQ(asked(world[1].agreement(), "a read of y"), "begun"); });
  EXPECT_EQ(asked(world[0].agreement(), "a read of x"), refused("a read of x", "rank 1 comes to a read of y"));
  EXPECT_EQ(asked(world[0].agreement(), "a read of y"), "begun");
}

struct Interrupted {};

TEST(Agreement, AnInterruptedAskIsWithdrawn) {
  World world(2);
  for (std::size_t asks : {0, 1}) {
    EXPECT_THROW(world[asks].agreement().ask(1, "a read", [] { throw Interrupted(); }), Interrupted);
    EXPECT_EQ(at_once(world, {"a read of x", "a read of x"}), (std::vector<std::string>(2, "begun"))) << "it takes both, and is the next op of both";
  }
  for (std::size_t rank : {0, 1}) EXPECT_EQ(world[rank].ended(2), 2);
}

TEST(Agreement, WhileAThreadAsksOthersOfItsRankBeginNothing) {
  World world(2);
  std::jthread reads([&] { EXPECT_EQ(asked(world[0].agreement(), "a read"), refused("a read", "rank 1 comes to a call")); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::jthread calls([&] { world[0].agreement().end(world[0].agreement().begin(2, "a call")); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  world[1].agreement().end(world[1].agreement().begin(2, "a call"));
  for (std::size_t rank : {0, 1}) EXPECT_EQ(world[rank].ended(1), 1) << "the call takes the number of the read";
}

TEST(Agreement, WhoAsksHearsOfAFailure) {
  World world(3);
  std::jthread fails([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    world[2].agreement().fail(Error(ErrorKind::user, "it cannot go on"));
  });
  for (std::size_t rank : {0, 1}) EXPECT_EQ(asked(world[rank].agreement(), "a read"), "rank 2: it cannot go on");
}

}  // namespace
}  // namespace karez::runtime
