// The behaviour that every transport must have, tested on each: order, credits, sizes, depth, threads, counted bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <random>
#include <thread>

#include "karez/base/error.h"
#include "karez/comm/eager.h"
#include "karez/comm/test_collectives.h"
#include "karez/comm/test_links.h"

namespace karez::comm {
namespace {
using namespace test;

std::byte* bytes(auto& items) { return reinterpret_cast<std::byte*>(&items[0]); }

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) { return error.what(); }
  return "no error";
}

class Conformance : public ::testing::TestWithParam<TransportKind> {
 protected:
  void SetUp() override {
    if (!GetParam().exists()) GTEST_SKIP() << "no UCX here";
    transport = GetParam().make();
  }
  std::unique_ptr<Transport> transport;
  bool local() const { return GetParam().name == "local"; }
};

INSTANTIATE_TEST_SUITE_P(Transports, Conformance, ::testing::ValuesIn(transports),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(Conformance, ASendWaitsForAPostedReceive) {
  auto ends = transport->open(8);
  std::string from = "hello", to = ".....";
  ends->link(0).send(bytes(from), 5);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(ends->link(0).sent(), 0);
  EXPECT_EQ(ends->link(0).bytes_sent(), 0);
  EXPECT_EQ(to, ".....");
  ends->link(1).post_receive(bytes(to), 5);
  ASSERT_TRUE(await([&] { return ends->link(1).received() == 1 && ends->link(0).sent() == 1; }));
  EXPECT_EQ(to, "hello");
  EXPECT_EQ(ends->link(1).sent(), 0);
  EXPECT_EQ(ends->link(0).received(), 0);
  EXPECT_EQ(ends->link(0).bytes_sent(), 5);
  EXPECT_EQ(ends->link(1).bytes_sent(), 0);
}

constexpr std::int64_t too_long = EagerWindow::bytes + 1;  // for the eager window

TEST_P(Conformance, ASecondSendWaitsForASecondReceive) {
  auto ends = transport->open(8);
  std::string from = std::string(too_long, 'a') + std::string(too_long, 'b'), to(from.size(), '.');
  ends->link(1).post_receive(bytes(to), too_long);
  ends->link(0).send(bytes(from), too_long);
  ends->link(0).send(bytes(from) + too_long, too_long);
  ASSERT_TRUE(await([&] { return ends->link(1).received() == 1 && ends->link(0).sent() == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(to, std::string(too_long, 'a') + std::string(too_long, '.'));
  EXPECT_EQ(ends->link(0).sent(), 1);
  ends->link(1).post_receive(bytes(to) + too_long, too_long);
  ASSERT_TRUE(await([&] { return ends->link(1).received() == 2 && ends->link(0).sent() == 2; }));
  EXPECT_EQ(to, from);
}

// Messages arrive in order, whether they wait at the sender or were sent before their receives.
TEST_P(Conformance, ShortMessagesBeforeTheirReceivesKeepTheirOrder) {
  auto ends = transport->open(64);
  std::vector<std::int64_t> sizes = {3, 0, 1000, 5, too_long, 7, 40000, 30000, 2, too_long, 0, 1};
  std::int64_t sum = 0;
  for (std::int64_t size : sizes) sum += size;
  for (int round = 0; round < 20; ++round) {
    std::string from(static_cast<std::size_t>(sum), '.'), to(from.size(), ' ');
    std::mt19937_64 random(static_cast<unsigned>(round));
    for (char& c : from) c = static_cast<char>(random());
    std::int64_t at = 0, sent = ends->link(0).sent(), received = ends->link(1).received();
    for (std::int64_t size : sizes) ends->link(0).send(bytes(from) + at, size), at += size;
    std::this_thread::sleep_for(std::chrono::microseconds(200 * (round % 5)));
    at = 0;
    for (std::int64_t size : sizes) ends->link(1).post_receive(bytes(to) + at, size), at += size;
    ASSERT_TRUE(await([&] {
      return ends->link(1).received() == received + std::ssize(sizes) &&
             ends->link(0).sent() == sent + std::ssize(sizes);
    }));
    EXPECT_TRUE(from == to) << "round " << round;
  }
}

TEST_P(Conformance, AWaitingMemberIsNotified) {
  auto ends = transport->open(8);
  std::atomic<int> sender{0}, receiver{0};
  ends->end(0).set_wake([&] { ++sender; });
  ends->end(1).set_wake([&] { ++receiver; });
  std::string from(too_long, 'x'), to(too_long, '.');
  ends->link(1).post_receive(bytes(to), too_long);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(receiver, 0);
  ends->link(0).send(bytes(from), too_long);
  EXPECT_TRUE(await([&] { return receiver == 1; }));
  ASSERT_TRUE(await([&] { return ends->link(0).sent() == 1 && (local() || sender == 1); }));
  ends->end(1).notifier().acknowledge();
  ends->end(0).notifier().acknowledge();
  sender = 0;
  ends->link(0).send(bytes(from), too_long);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(sender, 0);
  ends->link(1).post_receive(bytes(to), too_long);
  EXPECT_TRUE(await([&] { return sender == 1; })) << "its memory is free again";
  ASSERT_TRUE(await([&] { return ends->link(1).received() == 2; }));
}

TEST_P(Conformance, EmptyMessagesArriveInOrder) {
  auto ends = transport->open(4);
  std::string from = "ab", to = "..";
  ends->link(1).post_receive(nullptr, 0);
  ends->link(1).post_receive(bytes(to), 2);
  ends->link(1).post_receive(nullptr, 0);
  ends->link(0).send(nullptr, 0);
  ASSERT_TRUE(await([&] { return ends->link(1).received() == 1 && ends->link(0).sent() == 1; }));
  EXPECT_EQ(to, "..");
  ends->link(0).send(bytes(from), 2);
  ends->link(0).send(nullptr, 0);
  ASSERT_TRUE(await([&] { return ends->link(1).received() == 3; }));
  EXPECT_EQ(to, "ab");
  EXPECT_EQ(ends->link(0).bytes_sent(), 2);
}

// Sends messages of all `sizes` in order and receives them in the same thread, with as many in flight as the depth
// allows.
void pass(LinkEnds& ends, const std::vector<std::int64_t>& sizes, std::uint64_t seed) {
  std::int64_t sum = 0;
  for (std::int64_t size : sizes) sum += size;
  std::vector<std::byte> from(static_cast<std::size_t>(sum) + 1), to(from.size(), std::byte{0xA5});
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i + 8 <= from.size(); i += 8) {
    std::uint64_t word = random();
    std::memcpy(&from[i], &word, 8);
  }
  from.back() = std::byte{0xA5};  // the byte after the last message must not change
  Link &a = ends.link(0), &b = ends.link(1);
  auto count = static_cast<std::int64_t>(sizes.size());
  std::int64_t sent = 0, posted = 0, send_at = 0, post_at = 0, before = a.bytes_sent(), a0 = a.sent(),
               b0 = b.received();
  bool done = await([&] {
    while (posted < count && posted - (b.received() - b0) < b.depth()) {
      b.post_receive(to.data() + post_at, sizes[static_cast<std::size_t>(posted)]);
      post_at += sizes[static_cast<std::size_t>(posted++)];
    }
    while (sent < count && sent - (a.sent() - a0) < a.depth()) {
      a.send(from.data() + send_at, sizes[static_cast<std::size_t>(sent)]);
      send_at += sizes[static_cast<std::size_t>(sent++)];
    }
    return b.received() - b0 == count && a.sent() - a0 == count;
  });
  ASSERT_TRUE(done) << b.received() - b0 << " of " << count << " arrived";
  EXPECT_TRUE(from == to) << "different bytes arrived";
  EXPECT_EQ(a.bytes_sent() - before, sum);
}

TEST_P(Conformance, AnEndThatStopsPollingIsWokenAgain) {
  auto ends = transport->open(4);
  for (std::uint64_t round = 0; round < 20; ++round) {
    for (bool polling : {true, false}) {
      for (int m = 0; m < 2; ++m) ends->end(m).set_busy_poll(polling);
      std::string from = "x", to = ".";
      ends->link(1).post_receive(bytes(to), 1);
      ends->link(0).send(bytes(from), 1);
      std::int64_t count = static_cast<std::int64_t>(2 * round) + (polling ? 1 : 2);
      ASSERT_TRUE(await([&] {
        if (polling) ends->end(0).poll(), ends->end(1).poll();
        return ends->link(1).received() == count && ends->link(0).sent() == count;
      })) << "round "
          << round;
      EXPECT_EQ(to, "x");
    }
  }
}

// Data that arrives after both ends have stopped polling.
TEST_P(Conformance, WorkLeftByAPollingEndIsDoneWhenItStopsPolling) {
  auto ends = transport->open(1);
  std::vector<std::byte> from(8 << 20, std::byte{1}), to(8 << 20);
  for (int m = 0; m < 2; ++m) ends->end(m).set_busy_poll(true);
  ends->link(1).post_receive(to.data(), 8 << 20);
  ends->link(0).send(from.data(), 8 << 20);
  for (int m = 0; m < 2; ++m) ends->end(m).set_busy_poll(false);
  ASSERT_TRUE(await([&] { return ends->link(1).received() == 1 && ends->link(0).sent() == 1; }));
  EXPECT_TRUE(from == to);
}

TEST_P(Conformance, ManySmallMessagesKeepTheirOrder) {
  auto ends = transport->open(32);
  pass(*ends, std::vector<std::int64_t>(20000, 8), 1);
}

TEST_P(Conformance, AMessageOf64MegabytesArrivesWhole) {
  auto ends = transport->open(2);
  pass(*ends, {64 << 20, 1, 3}, 2);
}

TEST_P(Conformance, MessagesOfSizesNearThoseOfFramesAndBuffersArriveWhole) {
  auto ends = transport->open(3);
  std::vector<std::int64_t> sizes;
  for (std::int64_t edge : {24, 16 << 10, 64 << 10, 1 << 20})
    for (std::int64_t size = edge - 25; size <= edge + 25; size += edge < 100 ? 1 : 5)
      sizes.push_back(std::max<std::int64_t>(size, 0));
  pass(*ends, sizes, 3);
}

TEST_P(Conformance, ALongMessageDoesNotDelayAnotherLink) {
  auto wide = transport->open(1), narrow = transport->open(1);
  std::vector<std::byte> from(64 << 20), to(64 << 20);
  bool before = false;                                    // the small message arrived before the end of the long one
  for (int round = 1; round <= 10 && !before; ++round) {  // this thread may check too late
    std::string small = "s", came = ".";
    wide->link(1).post_receive(to.data(), 64 << 20);
    narrow->link(1).post_receive(bytes(came), 1);
    wide->link(0).send(from.data(), 64 << 20);
    narrow->link(0).send(bytes(small), 1);
    ASSERT_TRUE(await([&] { return narrow->link(1).received() == round; }));
    before = local() || wide->link(0).bytes_sent() < std::int64_t{round} << 26;
    EXPECT_EQ(came, "s");
    ASSERT_TRUE(await([&] {
      return wide->link(1).received() == round && wide->link(0).sent() == round && narrow->link(0).sent() == round;
    }));
  }
  EXPECT_TRUE(before);
}

TEST_P(Conformance, ALinkRejectsMoreThanItsDepthInsteadOfOverwriting) {
  auto ends = transport->open(2);
  std::string from = "xy", to = "..";
  ends->link(0).send(bytes(from), 1);
  ends->link(0).send(bytes(from) + 1, 1);
  EXPECT_THAT(error_of([&] { ends->link(0).send(bytes(from), 1); }),
              ::testing::HasSubstr("more than 2 sends are pending"));
  ends->link(0).post_receive(bytes(to), 1);
  ends->link(0).post_receive(bytes(to), 1);
  EXPECT_THAT(error_of([&] { ends->link(0).post_receive(bytes(to), 1); }),
              ::testing::HasSubstr("more than 2 posted receives are pending"));
  EXPECT_EQ(ends->link(0).depth(), 2);
  ends->link(1).post_receive(bytes(to), 1);
  ends->link(1).post_receive(bytes(to) + 1, 1);
  ASSERT_TRUE(await([&] { return ends->link(1).received() == 2; }));
  EXPECT_EQ(to, "xy");
}

TEST_P(Conformance, AMessageAndAReceiveOfDifferentSizesAreAnErrorThatNamesBoth) {
  auto ends = transport->open(2);
  std::string four = "1234";
  ends->link(1).post_receive(bytes(four), 3);
  std::string error_text = error_of([&] {
    for (int i = 0; i < 1000 && ends->link(0).failure() == nullptr; ++i) {
      if (i == 0) ends->link(0).send(bytes(four), 4);  // before or after the credit arrives
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ends->end(0).check();
  });
  EXPECT_THAT(error_text, ::testing::HasSubstr("a message of 4 bytes does not match a receive of 3"));
  auto later = transport->open(2);
  if (ends->link(0).failure() != nullptr) return;  // the connection failed with it
  later->link(1).post_receive(bytes(four), 3);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_THAT(error_of([&] { later->link(0).send(bytes(four), 4); }),
              ::testing::HasSubstr("a message of 4 bytes does not match a receive of 3"));
}

class TrafficTest : public Conformance {
 protected:
  void run(bool a_polls, bool b_polls, std::uint64_t seed) {
    std::vector<std::unique_ptr<LinkEnds>> links;
    std::vector<Endpoint*> ends[2];
    for (int depth : {1, 2, 8}) {
      links.push_back(transport->open(depth));
      for (int m = 0; m < 2; ++m) ends[m].push_back(&links.back()->end(m));
    }
    Traffic traffic{seed, 400, 100000};
    std::string error_text;
    std::thread other([&] { error_text = traffic.serve(ends[1], 1, b_polls); });
    EXPECT_EQ(traffic.serve(ends[0], 0, a_polls), "") << "seed " << seed;
    other.join();
    EXPECT_EQ(error_text, "") << "seed " << seed;
  }
};
INSTANTIATE_TEST_SUITE_P(Transports, TrafficTest, ::testing::ValuesIn(transports),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(TrafficTest, RandomTrafficOfTwoSleepingEndsArrivesUnchanged) { run(false, false, 11); }
TEST_P(TrafficTest, RandomTrafficOfTwoPollingEndsArrivesUnchanged) { run(true, true, 12); }
TEST_P(TrafficTest, RandomTrafficOfAPollingAndASleepingEndArrivesUnchanged) { run(true, false, 13); }

TEST_P(Conformance, ThreadsThatShareAConnectionDoNotDisturbEachOther) {
  constexpr int links = 4;
  std::vector<std::unique_ptr<LinkEnds>> ends;
  for (int l = 0; l < links; ++l) ends.push_back(transport->open(4));
  std::vector<std::thread> threads;
  std::vector<std::string> error_text(2 * links);
  for (int l = 0; l < links; ++l)
    for (int m = 0; m < 2; ++m)
      threads.emplace_back([&, l, m] {
        error_text[static_cast<std::size_t>(2 * l + m)] = Traffic{100u + static_cast<unsigned>(l), 200, 200000}.serve(
            {&ends[static_cast<std::size_t>(l)]->end(m)}, m, l == 3);
      });
  for (auto& t : threads) t.join();
  for (const auto& s : error_text) EXPECT_EQ(s, "");
}

// The same collectives as on the local hub; each pair of members communicates over the transport.
TEST_P(Conformance, CollectivesOfTwoMembersGetTheSameBits) {
  auto ends = transport->open(8);
  std::deque<Case> cases;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) cases.push_back(random_case(2, seed));
  for (Algorithm a : {Algorithm::ring, Algorithm::direct, Algorithm::flat, Algorithm::recursive})
    cases.push_back(make_all_reduce(DType::f32, Op::sum, 2, {100007}, a, 65536, 9));
  std::int64_t planned = 0;
  for (Case& c : cases) {
    std::vector<CollectiveRun> runs;
    for (int m = 0; m < 2; ++m) {
      runs.emplace_back(c.specs[static_cast<std::size_t>(m)], ends->end(m));
      runs.back().start(c.in[static_cast<std::size_t>(m)].data(), c.out[static_cast<std::size_t>(m)].data(),
                        c.staging[static_cast<std::size_t>(m)].data());
    }
    ASSERT_TRUE(await([&] {
      bool first = runs[0].advance(), second = runs[1].advance();
      return first && second;
    })) << c.name;
    EXPECT_EQ(c.difference(), "");
    planned += c.planned();
  }
  EXPECT_EQ(ends->end(0).bytes_sent() + ends->end(1).bytes_sent(), planned);
}

TEST_P(Conformance, ADepthOfZeroIsRejected) {
  if (local()) return;
  EXPECT_THROW(transport->open(0), Error);
}

}  // namespace
}  // namespace karez::comm
