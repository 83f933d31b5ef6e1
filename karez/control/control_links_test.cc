// Tests with fake ranks that the work of rank 0 for each rank and launch does not grow with the number of ranks.
#include "karez/control/control_links.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "karez/control/test_fake_ranks.h"

namespace karez::control {
namespace {

struct PerRank {
  double polls = 0, messages = 0, bytes = 0;
};

PerRank measure_launch(int ranks) {
  constexpr int launches = 20;
  FakeRanks world(ranks);
  const FakeRanks::Counts before = world.counts();
  for (int i = 0; i < launches; ++i) world.launch("a call of function 'step' (train.py:12)", 7);
  const FakeRanks::Counts after = world.counts();
  const double factor = 1.0 / (launches * (ranks - 1));
  return {factor * static_cast<double>(after.polls - before.polls),
          factor * static_cast<double>(after.messages - before.messages),
          factor * static_cast<double>(after.bytes - before.bytes)};
}

TEST(ControlLinks, TheWorkOfRank0PerRankDoesNotGrowWithTheNumberOfRanks) {
  for (int ranks : {16, 64, 256}) {
    const PerRank counts = measure_launch(ranks);
    EXPECT_EQ(counts.messages, 1) << "expected only the message that the launch has ended; " << ranks << " ranks";
    EXPECT_EQ(counts.bytes, 3 * 256) << "expected a packet for each of three messages: begun and ended to rank 0, and "
                                        "ended from rank 0; "
                                     << ranks << " ranks";
    EXPECT_LE(counts.polls, 6)
        << "two messages arrive and one leaves: each may cause a poll that finds the message and "
           "one that finds none; "
        << ranks << " ranks";
  }
}

// Each message arrives after rank 0 has taken the previous one. In this case, polling all links would be slowest.
TEST(ControlLinks, ASingleMessageCausesAPollOfItsLinkOnly) {
  for (int ranks : {16, 256}) {
    FakeRanks world(ranks);
    ControlMessage message;
    message.op = world.rank0().begin({.hash = 7, .what = "a call"});
    message.hash = 7;
    message.text = "a call";
    const std::int64_t before = world.counts().polls;
    for (int rank = 1; rank < ranks; ++rank) {
      const std::int64_t polls = world.counts().polls;
      world.send(rank, message);
      for (const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
           world.counts().polls < polls + 2 && std::chrono::steady_clock::now() < until;)
        std::this_thread::yield();
    }
    EXPECT_EQ(world.counts().polls - before, 2 * (ranks - 1)) << ranks << " ranks";
    for (int rank = 1; rank < ranks; ++rank) {
      ControlMessage end;
      end.kind = ControlMessage::Kind::ended;
      end.op = message.op;
      world.send(rank, end);
    }
    world.rank0().end(message.op);
  }
}

}  // namespace
}  // namespace karez::control
