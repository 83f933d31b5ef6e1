// Tests of the behaviour that all transports have in common: order, credits, sizes, depth, threads and counted bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <random>
#include <thread>

#include "karez/base/test_error.h"
#include "karez/comm/collective/test_collectives.h"
#include "karez/comm/transport/eager.h"
#include "karez/comm/transport/test_links.h"

namespace karez::comm {
namespace {
using namespace test;

std::byte* bytes(auto& items) { return reinterpret_cast<std::byte*>(&items[0]); }

class Conformance : public ::testing::TestWithParam<TransportKind> {
 protected:
  void SetUp() override {
    if (!GetParam().exists()) GTEST_SKIP() << "no UCX library";
    transport = GetParam().make();
  }
  std::unique_ptr<Transport> transport;
  bool is_local() const { return GetParam().name == "local"; }
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

constexpr std::int64_t long_bytes = EagerWindow::bytes + 1;  // too many for the eager window

TEST_P(Conformance, ASecondSendWaitsForASecondReceive) {
  auto ends = transport->open(8);
  std::string from = std::string(long_bytes, 'a') + std::string(long_bytes, 'b'), to(from.size(), '.');
  ends->link(1).post_receive(bytes(to), long_bytes);
  ends->link(0).send(bytes(from), long_bytes);
  ends->link(0).send(bytes(from) + long_bytes, long_bytes);
  ASSERT_TRUE(await([&] { return ends->link(1).received() == 1 && ends->link(0).sent() == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(to, std::string(long_bytes, 'a') + std::string(long_bytes, '.'));
  EXPECT_EQ(ends->link(0).sent(), 1);
  ends->link(1).post_receive(bytes(to) + long_bytes, long_bytes);
  ASSERT_TRUE(await([&] { return ends->link(1).received() == 2 && ends->link(0).sent() == 2; }));
  EXPECT_EQ(to, from);
}

// Long messages wait at the sender until their receives are posted; short ones may arrive earlier and are buffered.
TEST_P(Conformance, MessagesSentBeforeTheirReceivesKeepTheirOrder) {
  auto ends = transport->open(64);
  std::vector<std::int64_t> sizes = {3, 0, 1000, 5, long_bytes, 7, 40000, 30000, 2, long_bytes, 0, 1};
  std::int64_t sum = 0;
  for (std::int64_t size : sizes) sum += size;
  for (int round = 0; round < 20; ++round) {
    std::string from(static_cast<std::size_t>(sum), '.'), to(from.size(), ' ');
    std::mt19937_64 random(static_cast<unsigned>(round));
    for (char& c : from) c = static_cast<char>(random());
    std::int64_t offset = 0;
    const std::int64_t initial_sent = ends->link(0).sent(), initial_received = ends->link(1).received();
    for (std::int64_t size : sizes) ends->link(0).send(bytes(from) + offset, size), offset += size;
    std::this_thread::sleep_for(std::chrono::microseconds(200 * (round % 5)));
    offset = 0;
    for (std::int64_t size : sizes) ends->link(1).post_receive(bytes(to) + offset, size), offset += size;
    ASSERT_TRUE(await([&] {
      return ends->link(1).received() == initial_received + std::ssize(sizes) &&
             ends->link(0).sent() == initial_sent + std::ssize(sizes);
    }));
    EXPECT_TRUE(from == to) << "round " << round;
  }
}

TEST_P(Conformance, AWaitingMemberIsNotified) {
  auto ends = transport->open(8);
  std::atomic<int> sender_wakes{0}, receiver_wakes{0};
  ends->end(0).set_wake([&] { ++sender_wakes; });
  ends->end(1).set_wake([&] { ++receiver_wakes; });
  std::string from(long_bytes, 'x'), to(long_bytes, '.');
  ends->link(1).post_receive(bytes(to), long_bytes);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(receiver_wakes, 0);
  ends->link(0).send(bytes(from), long_bytes);
  EXPECT_TRUE(await([&] { return receiver_wakes == 1; }));
  ASSERT_TRUE(await([&] { return ends->link(0).sent() == 1 && (is_local() || sender_wakes == 1); }));
  ends->end(1).notifier().acknowledge();
  ends->end(0).notifier().acknowledge();
  sender_wakes = 0;
  ends->link(0).send(bytes(from), long_bytes);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(sender_wakes, 0);
  ends->link(1).post_receive(bytes(to), long_bytes);
  EXPECT_TRUE(await([&] { return sender_wakes == 1; })) << "the sender must be notified once the message is sent";
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

// Sends messages of these sizes in order and receives them in the same thread; the depth limits the pending messages.
void exchange(LinkEnds& ends, const std::vector<std::int64_t>& sizes, std::uint64_t seed) {
  std::int64_t sum = 0;
  for (std::int64_t size : sizes) sum += size;
  std::vector<std::byte> from(static_cast<std::size_t>(sum) + 1), to(from.size(), std::byte{0xA5});
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i + 8 <= from.size(); i += 8) {
    std::uint64_t word = random();
    std::memcpy(&from[i], &word, 8);
  }
  from.back() = std::byte{0xA5};  // the byte after the last message must not change
  Link &sender = ends.link(0), &receiver = ends.link(1);
  auto count = static_cast<std::int64_t>(sizes.size());
  std::int64_t send_count = 0, receive_count = 0, send_offset = 0, receive_offset = 0;
  const std::int64_t initial_bytes = sender.bytes_sent(), initial_sent = sender.sent(),
                     initial_received = receiver.received();
  auto sent = [&] { return sender.sent() - initial_sent; };
  auto received = [&] { return receiver.received() - initial_received; };
  const bool done = await([&] {
    while (receive_count < count && receive_count - received() < receiver.depth()) {
      receiver.post_receive(to.data() + receive_offset, sizes[static_cast<std::size_t>(receive_count)]);
      receive_offset += sizes[static_cast<std::size_t>(receive_count++)];
    }
    while (send_count < count && send_count - sent() < sender.depth()) {
      sender.send(from.data() + send_offset, sizes[static_cast<std::size_t>(send_count)]);
      send_offset += sizes[static_cast<std::size_t>(send_count++)];
    }
    return received() == count && sent() == count;
  });
  ASSERT_TRUE(done) << received() << " of " << count << " arrived";
  EXPECT_TRUE(from == to) << "the received bytes differ from those sent";
  EXPECT_EQ(sender.bytes_sent() - initial_bytes, sum);
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

// Most of the data arrives after both ends have stopped polling.
TEST_P(Conformance, AMessageThatBeginsWhilePollingArrivesAfterPollingEnds) {
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
  exchange(*ends, std::vector<std::int64_t>(20000, 8), 1);
}

TEST_P(Conformance, AMessageOf64MegabytesArrivesCompletely) {
  auto ends = transport->open(2);
  exchange(*ends, {64 << 20, 1, 3}, 2);
}

TEST_P(Conformance, MessagesWithSizesNearThoseOfFramesAndBuffersArriveCompletely) {
  auto ends = transport->open(3);
  std::vector<std::int64_t> sizes;
  for (std::int64_t edge : {24, 16 << 10, 64 << 10, 1 << 20})
    for (std::int64_t size = edge - 25; size <= edge + 25; size += edge < 100 ? 1 : 5)
      sizes.push_back(std::max<std::int64_t>(size, 0));
  exchange(*ends, sizes, 3);
}

TEST_P(Conformance, ALongMessageDoesNotDelayAnotherLink) {
  auto long_ends = transport->open(1), short_ends = transport->open(1);
  std::vector<std::byte> from(64 << 20), to(64 << 20);
  bool arrived_first = false;  // true if the short message arrives before the end of the long message
  for (int round = 1; round <= 10 && !arrived_first; ++round) {  // repeated, because this thread may check too late
    std::string short_text = "s", received_text = ".";
    long_ends->link(1).post_receive(to.data(), 64 << 20);
    short_ends->link(1).post_receive(bytes(received_text), 1);
    long_ends->link(0).send(from.data(), 64 << 20);
    short_ends->link(0).send(bytes(short_text), 1);
    ASSERT_TRUE(await([&] { return short_ends->link(1).received() == round; }));
    arrived_first = is_local() || long_ends->link(0).bytes_sent() < std::int64_t{round} << 26;
    EXPECT_EQ(received_text, "s");
    ASSERT_TRUE(await([&] {
      return long_ends->link(1).received() == round && long_ends->link(0).sent() == round &&
             short_ends->link(0).sent() == round;
    }));
  }
  EXPECT_TRUE(arrived_first);
}

TEST_P(Conformance, ALinkRejectsMessagesBeyondItsDepth) {
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

TEST_P(Conformance, AnErrorForAMessageAndAReceiveOfDifferentSizesContainsBothSizes) {
  auto ends = transport->open(2);
  std::string text = "1234";
  ends->link(1).post_receive(bytes(text), 3);
  std::string error_text = error_of([&] {
    for (int i = 0; i < 1000 && ends->link(0).failure() == nullptr; ++i) {
      if (i == 0) ends->link(0).send(bytes(text), 4);  // before or after the credit arrives
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ends->end(0).check();
  });
  EXPECT_THAT(error_text, ::testing::HasSubstr("a message of 4 bytes does not match a receive of 3 bytes"));
  auto later = transport->open(2);
  if (ends->link(0).failure() != nullptr) return;  // the connection has failed, too
  later->link(1).post_receive(bytes(text), 3);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_THAT(error_of([&] { later->link(0).send(bytes(text), 4); }),
              ::testing::HasSubstr("a message of 4 bytes does not match a receive of 3 bytes"));
}

class TrafficTest : public Conformance {
 protected:
  void run(bool first_polls, bool second_polls, std::uint64_t seed) {
    std::vector<std::unique_ptr<LinkEnds>> links;
    std::vector<Endpoint*> ends[2];
    for (int depth : {1, 2, 8}) {
      links.push_back(transport->open(depth));
      for (int m = 0; m < 2; ++m) ends[m].push_back(&links.back()->end(m));
    }
    Traffic traffic{seed, 400, 100000};
    std::string error_text;
    std::thread other([&] { error_text = traffic.serve(ends[1], 1, second_polls); });
    EXPECT_EQ(traffic.serve(ends[0], 0, first_polls), "") << "seed " << seed;
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

// Each pair of members communicates over the transport.
TEST_P(Conformance, CollectivesOfTwoMembersGetTheSameBits) {
  auto ends = transport->open(8);
  std::deque<Case> cases;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) cases.push_back(random_case(2, seed));
  for (CollectiveAlgorithm a : {CollectiveAlgorithm::ring, CollectiveAlgorithm::direct, CollectiveAlgorithm::flat,
                                CollectiveAlgorithm::recursive})
    cases.push_back(make_all_reduce(DType::f32, Op::sum, 2, {100007}, a, 65536, 9));
  std::int64_t planned = 0;
  for (Case& c : cases) {
    std::deque<CollectiveRun> runs;
    for (int m = 0; m < 2; ++m) {
      runs.emplace_back(c.specs[static_cast<std::size_t>(m)], ends->end(m));
      runs.back().start(c.in[static_cast<std::size_t>(m)].data(), c.out[static_cast<std::size_t>(m)].data(),
                        c.staging[static_cast<std::size_t>(m)].data());
    }
    ASSERT_TRUE(await([&] {
      const bool first_done = runs[0].advance(), second_done = runs[1].advance();
      return first_done && second_done;
    })) << c.name;
    EXPECT_EQ(c.difference(), "");
    planned += c.planned();
  }
  EXPECT_EQ(ends->end(0).bytes_sent() + ends->end(1).bytes_sent(), planned);
}

TEST_P(Conformance, ADepthOfZeroIsRejected) {
  if (is_local()) return;
  EXPECT_THROW(transport->open(0), Error);
}

}  // namespace
}  // namespace karez::comm
