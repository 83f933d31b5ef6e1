// Links between processes, and their behaviour when a process dies or sends invalid data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "karez/base/error.h"
#include "karez/comm/eager.h"
#include "karez/comm/test_collectives.h"
#include "karez/comm/test_links.h"

namespace karez::comm {
namespace {
using namespace test;
namespace fs = std::filesystem;

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.kind == ErrorKind::peer ? error.what() : cat("not of kind peer: ", error.what());
  }
  return "no error";
}

std::size_t descriptors() {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}
std::size_t segments() {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator("/dev/shm"), fs::directory_iterator()));
}

class Processes : public ::testing::TestWithParam<TransportKind> {
 protected:
  void SetUp() override {
    if (!GetParam().exists()) GTEST_SKIP() << "no UCX here";
    descriptors_before = descriptors();
    segments_before = segments();
  }
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_EQ(descriptors(), descriptors_before);
    EXPECT_TRUE(await([&] { return segments() <= segments_before; }))
        << "segments of other programs are removed in time";
  }

  // Starts a process with side 1 of a connection; side 0 is in this process.
  void begin(const std::function<int(ConnectionEnd&)>& body) {
    auto sockets = GetParam().sockets(), ready = socket_pair();
    child = std::make_unique<ChildProcess>([&] {
      sockets[0].close();
      ready[0].close();
      ConnectionEnd side(GetParam(), std::move(sockets[1]), 1);
      ready[1].close();
      return body(side);
    });
    sockets[1].close();
    ready[1].close();
    here = std::make_unique<ConnectionEnd>(GetParam(), std::move(sockets[0]), 0);
    std::byte any{};
    EXPECT_TRUE(await([&] { return ::read(ready[0].get(), &any, 1) == 0; })) << "it has not started";
  }

  // The peer is dead: its link must report the failure in time, with the peer's name.
  void expect_failure(Endpoint& end) {
    EXPECT_TRUE(await([&] { return end.link(1).failure() != nullptr; }, detection_seconds));
    ASSERT_TRUE(await([&] { return end.link(1).failure() != nullptr; }));
    EXPECT_THAT(end.link(1).failure()->what(), ::testing::HasSubstr("rank 1 (test, process 1)"));
    EXPECT_EQ(end.link(1).failure()->kind, ErrorKind::peer);
    EXPECT_TRUE(await([&] { return end.notifier().failed(); })) << "the notifier follows the link";
    EXPECT_THAT(error_of([&] { end.check(); }), ::testing::HasSubstr("rank 1"));
    std::byte any{};
    EXPECT_THAT(error_of([&] { end.link(1).send(&any, 1); }), ::testing::HasSubstr("rank 1"));
    EXPECT_THAT(error_of([&] { end.link(1).post_receive(&any, 1); }), ::testing::HasSubstr("rank 1"));
  }

  std::unique_ptr<ChildProcess> child;
  std::unique_ptr<ConnectionEnd> here;
  std::size_t descriptors_before = 0, segments_before = 0;
};

INSTANTIATE_TEST_SUITE_P(Transports, Processes, ::testing::ValuesIn(transports.begin() + 1, transports.end()),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(Processes, RandomTrafficBetweenTwoProcessesArrivesUnchanged) {
  for (bool polling : {false, true}) {
    Traffic traffic{polling ? 21u : 22u, 150, 300000};
    auto serve = [&](ConnectionEnd& side) {
      return traffic.serve({&side.open(7, 1), &side.open(8, 4)}, side.side(), polling);
    };
    begin([&](ConnectionEnd& side) {
      std::string error_text = serve(side);
      if (!error_text.empty()) std::fprintf(stderr, "in the child: %s\n", error_text.c_str());
      return error_text.empty() ? 0 : 1;
    });
    EXPECT_EQ(serve(*here), "");
    EXPECT_EQ(child->wait(), 0);
    here.reset();
  }
}

TEST_P(Processes, AKilledProcessIsReportedAtOnceWithItsName) {
  begin([](ConnectionEnd&) {
    std::this_thread::sleep_for(std::chrono::seconds(60));
    return 0;
  });
  Endpoint& end = here->open(1, 4);
  std::atomic<int> woken{0};
  end.set_wake([&] { ++woken; });
  std::vector<std::byte> from(100), to(100, std::byte{7});
  end.link(1).post_receive(to.data(), 100);
  for (int i = 0; i < 4; ++i) end.link(1).send(from.data(), 100);  // these wait forever
  EXPECT_EQ(woken, 0);
  child->kill();
  expect_failure(end);
  EXPECT_GE(woken, 1);
  EXPECT_EQ(to, std::vector<std::byte>(100, std::byte{7}));
  EXPECT_EQ(end.link(1).sent(), 0);
  Endpoint& later = here->open(2, 4);
  EXPECT_NE(later.link(1).failure(), nullptr) << "a link that is opened later has failed from the start";
  EXPECT_TRUE(later.notifier().failed());
  here.reset();
  child.reset();
}

TEST_P(Processes, AProcessKilledInTheMiddleOfALongMessageIsReportedAsSoon) {
  constexpr std::int64_t size = 128 << 20;
  std::vector<std::byte> memory(size);
  // Whether the message was incomplete when the peer was killed: this thread may be too late.
  auto killed_in_the_middle = [&](bool sends) {
    begin([&](ConnectionEnd& side) {
      Endpoint& end = side.open(1, 1);
      if (sends) end.link(0).post_receive(memory.data(), size);
      else end.link(0).send(memory.data(), size);
      std::this_thread::sleep_for(std::chrono::seconds(60));
      return 0;
    });
    Endpoint& end = here->open(1, 1);
    if (sends) {
      end.link(1).send(memory.data(), size);
      EXPECT_TRUE(await([&] { return end.link(1).bytes_sent() > 0; }));
    } else {
      end.link(1).post_receive(memory.data(), size);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    child->kill();
    expect_failure(end);
    const bool middle = end.link(1).received() + end.link(1).sent() == 0;
    here.reset();
    child.reset();
    return middle;
  };
  for (bool sends : {true, false}) {
    bool middle = false;
    for (int attempt = 0; attempt < 20 && !middle; ++attempt) middle = killed_in_the_middle(sends);
    EXPECT_TRUE(middle) << (sends ? "sent" : "received");
  }
}

TEST_P(Processes, MessagesThatArrivedBeforeTheDeathCount) {
  begin([](ConnectionEnd& side) {
    std::byte bytes[3] = {std::byte{1}, std::byte{2}, std::byte{3}}, go{};
    Endpoint& end = side.open(1, 4);
    end.link(0).post_receive(&go, 1);
    if (!await([&] { return end.link(0).received() == 1; })) return 1;
    for (auto& b : bytes) end.link(0).send(&b, 1);
    return await([&] { return end.link(0).sent() == 3; }) ? 0 : 1;
  });
  Endpoint& end = here->open(1, 4);
  std::byte to[4] = {}, go{};
  for (auto& b : to) end.link(1).post_receive(&b, 1);
  end.link(1).send(&go, 1);
  EXPECT_EQ(child->wait(), 0);
  expect_failure(end);
  EXPECT_EQ(end.link(1).received(), 3);
  EXPECT_EQ(to[2], std::byte{3});
  here.reset();
}

TEST_P(Processes, ACollectiveEndsWithTheNameOfTheDeadRank) {
  Case c = make_all_reduce(DType::f32, Op::sum, 2, {1000000}, Algorithm::ring, 4096, 3);
  begin([&](ConnectionEnd& side) {
    Endpoint& end = side.open(1, 4);
    CollectiveRun run(c.specs[1], end);
    run.start(c.in[1].data(), c.out[1].data(), c.staging[1].data());
    while (end.bytes_sent() < 500000) run.advance();
    return 0;  // half way
  });
  Endpoint& end = here->open(1, 4);
  CollectiveRun run(c.specs[0], end);
  run.start(c.in[0].data(), c.out[0].data(), c.staging[0].data());
  std::string error_text;
  EXPECT_TRUE(await([&] {
    error_text = error_of([&] { run.advance(); });
    return error_text != "no error" || !run.active();
  }));
  EXPECT_THAT(error_text, ::testing::HasSubstr("rank 1 (test, process 1)"));
  EXPECT_TRUE(run.active());
  run.abandon();
  EXPECT_EQ(child->wait(), 0);
  here.reset();
}

// Rank 2 dies while this one waits for rank 1, which is alive but idle.
TEST_P(Processes, ACollectiveEndsWhenAnyOfItsLinksFails) {
  auto alive = GetParam().sockets(), dying = GetParam().sockets();
  // A process that is killed while it starts would leave a segment of UCX.
  auto one_began = socket_pair(), two_began = socket_pair();
  auto idle = [&](Descriptor& socket, Descriptor& began) {
    ConnectionEnd side(GetParam(), std::move(socket), 1);
    side.open(1, 8);
    began.close();
    std::this_thread::sleep_for(std::chrono::seconds(60));
    return 0;
  };
  auto close = [&] { alive[0].close(), dying[0].close(); };
  ChildProcess one([&] { return close(), dying[1].close(), two_began[1].close(), idle(alive[1], one_began[1]); });
  alive[1].close();
  one_began[1].close();
  ChildProcess two([&] { return close(), idle(dying[1], two_began[1]); });
  dying[1].close();
  two_began[1].close();
  {
    Reactor reactor;
    Connection to_one(reactor, GetParam().wire(std::move(alive[0]), 0), "rank 1");
    Connection to_two(reactor, GetParam().wire(std::move(dying[0]), 0), "rank 2");
    Notifier notifier;
    std::atomic<int> woken{0};
    Endpoint end(0, 3, notifier);
    end.set_wake([&] { ++woken; });
    end.connect(1, to_one.open(1, 8, notifier));
    end.connect(2, to_two.open(1, 8, notifier));
    Case c = make_all_reduce(DType::f32, Op::sum, 3, {100}, Algorithm::flat, 4096, 3);
    CollectiveRun run(c.specs[0], end);
    run.start(c.in[0].data(), c.out[0].data(), c.staging[0].data());
    EXPECT_FALSE(run.advance());
    std::byte any{};
    for (Descriptor* began : {&one_began[0], &two_began[0]})
      ASSERT_TRUE(await([&] { return ::read(began->get(), &any, 1) == 0; }));
    int before = woken;
    two.kill();
    ASSERT_TRUE(await([&] { return woken > before; }));
    EXPECT_THAT(error_of([&] { run.advance(); }), ::testing::HasSubstr("rank 2"));
    EXPECT_EQ(end.link(1).failure(), nullptr);
    run.abandon();
  }
  one.kill();
}

// --- frames that no correct peer sends

std::string frame(std::uint32_t kind, std::uint32_t length, std::uint64_t channel, std::uint64_t size,
                  const std::string& behind = "") {
  std::string out(24, '\0');
  std::memcpy(&out[0], &kind, 4);
  std::memcpy(&out[4], &length, 4);
  std::memcpy(&out[8], &channel, 8);
  std::memcpy(&out[16], &size, 8);
  return out + behind;
}

// A wire that the test uses directly, with a thread in the role of the reactor.
class RawWire {
 public:
  RawWire(const TransportKind& kind, Descriptor socket) : wire_(kind.wire(std::move(socket), 1)) {}
  ~RawWire() {
    over_ = true;
    thread_.join();
  }
  // Both return false after 20 seconds.
  bool write(std::string bytes) {
    iovec from{bytes.data(), bytes.size()};
    return await([&] {
      if (std::int64_t n = wire_->write(&from, 1); n > 0)
        from = {static_cast<char*>(from.iov_base) + n, from.iov_len - static_cast<std::size_t>(n)};
      return from.iov_len == 0;
    });
  }
  bool ends() {
    std::byte rest[1000];
    iovec into{rest, sizeof rest};
    return await([&] { return wire_->read(&into, 1) < 0; });
  }
  Wire* operator->() { return wire_.get(); }

 private:
  std::unique_ptr<Wire> wire_;
  std::atomic<bool> over_{false};
  std::thread thread_{[this] {
    while (!over_) {
      wire_->handle_wakeup();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }};
};

// A wire that cannot be written any more although the peer's last bytes have arrived: they become visible after an
// attempt to write.
class EndedWire : public Wire {
 public:
  explicit EndedWire(std::string last) : last_(std::move(last)) {}
  std::int64_t read(const iovec* into, int) override {
    if (!tried_) return 0;
    const std::size_t n = std::min({into->iov_len, last_.size() - read_, std::size_t{10}});
    if (n == 0) return -1;
    std::memcpy(into->iov_base, last_.data() + read_, n);
    read_ += n;
    return static_cast<std::int64_t>(n);
  }
  std::int64_t write(const iovec*, int) override {
    tried_ = true;
    return -1;
  }
  std::string reason() const override { return "it ended"; }
  bool wait_to_read() override { return true; }
  bool wait_to_write() override { return true; }
  int descriptor() const override { return event_.get(); }
  std::uint32_t events(bool) const override { return EPOLLIN; }
  void set_busy_poll(bool) override {}
  void handle_wakeup() override {}
  void finish_writing() override {}
  bool has_recent_ack(Seconds) const override { return true; }
  void shut() override { eventfd_write(event_.get(), 1); }  // notifies the reactor, like the end of a socket

 private:
  const Descriptor event_{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  const std::string last_;
  std::size_t read_ = 0;
  std::atomic<bool> tried_{false};
};

TEST(Connection, DataThatArrivedBeforeAFailedWriteIsReceived) {
  Reactor reactor;
  Connection connection(reactor, std::make_unique<EndedWire>(frame(2, 30, 1, 30, std::string(30, 'x'))), "rank 1");
  Notifier notifier;
  auto link = connection.open(1, 1, notifier);
  std::string to(30, '.');
  link->post_receive(reinterpret_cast<std::byte*>(&to[0]), 30);  // its credit cannot be written
  ASSERT_TRUE(await([&] { return connection.failure() != nullptr; }));
  EXPECT_STREQ(connection.failure()->what(), "link to rank 1: it ended");
  EXPECT_EQ(link->received(), 1);
  EXPECT_EQ(to, std::string(30, 'x'));
}

TEST_P(Processes, ALinkClosedInTheMiddleOfAMessageEndsTheConnection) {
  auto sockets = GetParam().sockets();
  Reactor reactor;
  Connection connection(reactor, GetParam().wire(std::move(sockets[0]), 0), "rank 1");
  RawWire wire(GetParam(), std::move(sockets[1]));
  Notifier notifier;
  auto half = connection.open(1, 1, notifier), whole = connection.open(2, 1, notifier);
  std::string to(200, '.'), other(1, '.'),
      bytes = frame(2, 100, 1, 200, std::string(100, 'x')) + frame(2, 1, 2, 1, "y");
  half->post_receive(reinterpret_cast<std::byte*>(&to[0]), 200);
  whole->post_receive(reinterpret_cast<std::byte*>(&other[0]), 1);
  ASSERT_TRUE(wire.write(bytes));
  ASSERT_TRUE(await([&] { return whole->received() == 1; }));
  half.reset();  // its memory is free now
  ASSERT_TRUE(await([&] { return connection.failure() != nullptr; }));
  EXPECT_STREQ(connection.failure()->what(), "link to rank 1: a link was closed here in the middle of a message");
  EXPECT_TRUE(wire.ends()) << "closed for the peer too";
}

TEST_P(Processes, GarbageClosesTheConnectionWithAReason) {
  std::string many_credits;
  for (int i = 0; i < 5; ++i) many_credits += frame(1, 0, 1, 8);
  std::string many_links;
  for (int i = 0; i < 70000; ++i) many_links += frame(1, 0, 1000 + static_cast<unsigned>(i), 8);
  std::string short_ones;
  for (int i = 0; i < 65; ++i) short_ones += frame(2, 1, 1, 1, "x");
  const std::pair<std::string, std::string> rows[] = {
      {frame(7, 0, 1, 0), "a frame of kind 7"},
      {std::string(24, 'G'), "a frame of kind 1195853639"},
      {frame(2, 1 << 21, 1, 1 << 22), "a frame with 2097152 bytes of a message of 4194304"},
      {frame(2, 9, 1, 8), "a frame with 9 bytes of a message of 8"},
      {frame(2, 0, 1, 8), "a frame with 0 bytes of a message of 8"},
      {frame(1, 1 << 14, 1, 8), "a credit for 16384 more receives"},
      {frame(1, 4, 1, 8), "more than 4 posted receives at once"},
      {frame(1, 0, 1, ~0ull), "a frame for a message of -1 bytes"},
      {frame(1, 0, 1, 1ull << 41), "a frame for a message of 2199023255552 bytes"},
      {frame(2, 8, 5, 8, "12345678"), "a message on a link that is not open here"},
      {frame(2, 8, 2, 8, "12345678"), "a message for which no receive is posted"},
      {frame(2, 8, 1, 8, "12345678"), "a message of 8 bytes does not match a receive of 4"},
      {frame(2, 3, 1, 4, "123") + frame(2, 3, 1, 4, "456"), "a message of 4 bytes does not match a receive of 4"},
      {frame(2, 4, 1, 4, "1234") + frame(2, 4, 1, 8, "1234"), "a message for which no receive is posted"},
      {frame(2, 4, 1, 4, "1234") + short_ones, "a message for which no receive is posted"},
      {frame(2, 4, 1, 4, "1234") + frame(2, 60000, 1, 60000, std::string(60000, 'x')) +
           frame(2, 6000, 1, 6000, std::string(6000, 'x')),
       "a message for which no receive is posted"},
      {many_credits, "more than 4 posted receives at once"},
      {many_links, "credits for more than 65536 links, or for one that it has closed"},
      {frame(3, 1, 1, 0), "the close of a link with a length of 1 and a size of 0"},
      {frame(3, 0, 1, 0) + frame(3, 0, 1, 0),
       "the close of a link that it has closed already or that exceeds the limit"},
      {frame(3, 0, 1, 0) + frame(2, 4, 1, 4, "1234"), "a message on a link that is not open here"},
      {frame(3, 0, 1, 0) + frame(1, 0, 1, 8), "credits for more than 65536 links, or for one that it has closed"},
  };
  for (const auto& [bytes, reason] : rows) {
    auto sockets = GetParam().sockets();
    ConnectionEnd side(GetParam(), std::move(sockets[0]), 0);
    RawWire wire(GetParam(), std::move(sockets[1]));
    Endpoint& end = side.open(1, 4);
    side.open(2, 4);
    std::string to(6, '.');
    end.link(1).post_receive(reinterpret_cast<std::byte*>(&to[1]), 4);
    std::byte credit[24];
    iovec into{credit, sizeof credit};
    ASSERT_TRUE(await([&] { return wire->read(&into, 1) == 24; }));  // its receive is posted
    iovec from{const_cast<char*>(bytes.data()), bytes.size()};
    bool over = await([&] {
      if (std::int64_t n = from.iov_len > 0 ? wire->write(&from, 1) : 0; n > 0)
        from = {static_cast<char*>(from.iov_base) + n, from.iov_len - n};
      return end.link(1).failure() != nullptr;
    });
    ASSERT_TRUE(over) << reason;
    EXPECT_THAT(end.link(1).failure()->what(),
                ::testing::HasSubstr("link to rank 1 (test, process 1): it violated the protocol: " + reason));
    EXPECT_EQ(to[0], '.');
    EXPECT_EQ(to[5], '.') << "no byte outside the posted memory is written";
    EXPECT_TRUE(wire.ends()) << "closed for the peer too: " << reason;
  }
}

// One side of a connection, and the other end of its wire for direct use.
struct RawConnectionPair {
  explicit RawConnectionPair(const TransportKind& kind) : RawConnectionPair(kind, kind.sockets()) {}
  RawConnectionPair(const TransportKind& kind, std::array<Descriptor, 2> sockets)
      : side(kind, std::move(sockets[0]), 0),
        wire(std::make_unique<RawWire>(kind, std::move(sockets[1]))) {}
  void write(std::string bytes) { ASSERT_TRUE(wire->write(std::move(bytes))); }
  // Reads until `expected` bytes have arrived, and then until none arrives for 20 ms.
  std::string read(std::int64_t expected) {
    std::string out, some(1 << 16, ' ');
    auto last = std::chrono::steady_clock::now();
    TestTimeout timeout(20);
    while ((std::ssize(out) < expected && !timeout.expired()) ||
           std::chrono::steady_clock::now() - last < std::chrono::milliseconds(20)) {
      iovec into{some.data(), some.size()};
      std::int64_t n = (*wire)->read(&into, 1);
      if (n <= 0) continue;
      out += some.substr(0, static_cast<std::size_t>(n));
      last = std::chrono::steady_clock::now();
    }
    return out;
  }
  ConnectionEnd side;
  std::unique_ptr<RawWire> wire;
};

std::byte* at(std::string& text, std::size_t place = 0) { return reinterpret_cast<std::byte*>(&text[place]); }

TEST_P(Processes, PostedReceivesAreAnnouncedOnlyWhenTheirMessagesNeedACredit) {
  RawConnectionPair pair(GetParam());
  Link& link = pair.side.open(1, 100).link(1);
  std::string to(300000, '.');
  link.post_receive(at(to), 10);
  EXPECT_EQ(pair.read(24), frame(1, 0, 1, 10)) << "the first one is always announced";
  for (int i = 0; i < 64; ++i) link.post_receive(at(to), 10);
  EXPECT_EQ(pair.read(0), "");
  link.post_receive(at(to), 20);
  EXPECT_EQ(pair.read(24), frame(1, 64, 1, 20)) << "64 that were not announced";
  link.post_receive(at(to), EagerWindow::bytes - 1);
  link.post_receive(at(to), 1);
  EXPECT_EQ(pair.read(0), "");
  link.post_receive(at(to), 1);
  EXPECT_EQ(pair.read(24), frame(1, 2, 1, 1)) << "more bytes than the eager window";
  link.post_receive(at(to), EagerWindow::bytes + 1);
  EXPECT_EQ(pair.read(24), frame(1, 0, 1, EagerWindow::bytes + 1));
}

TEST_P(Processes, ShortMessagesAreSentWithoutACreditWithinTheEagerWindow) {
  std::string from(300000, 'x');
  RawConnectionPair pair(GetParam());
  Link &few = pair.side.open(1, 100).link(1), &wide = pair.side.open(2, 100).link(1);
  few.send(at(from), 1);
  EXPECT_EQ(pair.read(0), "") << "the link may not be open at the peer";
  pair.write(frame(1, 0, 1, 1));
  for (int i = 0; i < 70; ++i) few.send(at(from), 1);
  EXPECT_EQ(std::ssize(pair.read(65 * 25)), 65 * 25);
  EXPECT_EQ(few.sent(), 65);
  pair.write(frame(1, 2, 1, 1));
  EXPECT_EQ(std::ssize(pair.read(3 * 25)), 3 * 25);
  pair.write(frame(1, 0, 2, 5));
  wide.send(at(from), 5);
  EXPECT_EQ(std::ssize(pair.read(24 + 5)), 24 + 5);
  wide.send(at(from), EagerWindow::bytes - 1);
  wide.send(at(from), 1);
  wide.send(at(from), 1);
  EXPECT_EQ(std::ssize(pair.read(24 + EagerWindow::bytes - 1 + 25)), 24 + EagerWindow::bytes - 1 + 25);
  pair.write(frame(1, 0, 2, EagerWindow::bytes - 1));
  EXPECT_EQ(std::ssize(pair.read(25)), 25);
  wide.send(at(from), EagerWindow::bytes + 1);
  EXPECT_EQ(std::ssize(pair.read(0)), 0) << "longer than the eager window";
  pair.write(frame(1, 2, 2, EagerWindow::bytes + 1));
  EXPECT_EQ(std::ssize(pair.read(24 + EagerWindow::bytes + 1)), 24 + EagerWindow::bytes + 1);
}

TEST_P(Processes, AMessageThatArrivedBeforeTheEndFillsALaterReceive) {
  RawConnectionPair pair(GetParam());
  Link& link = pair.side.open(1, 4).link(1);
  std::string to(3, '.');
  link.post_receive(at(to), 1);
  pair.write(frame(2, 1, 1, 1, "x") + frame(2, 1, 1, 1, "y"));
  (*pair.wire)->finish_writing();
  ASSERT_TRUE(await([&] { return link.failure() != nullptr; }));
  link.post_receive(at(to, 1), 1);
  EXPECT_EQ(link.received(), 2);
  EXPECT_EQ(to, "xy.");
  EXPECT_THROW(link.post_receive(at(to, 2), 1), Error);
}

TEST_P(Processes, AnEagerMessageMustMatchItsReceive) {
  for (bool first : {true, false}) {  // posted before or after the last byte arrives
    RawConnectionPair pair(GetParam());
    Link& link = pair.side.open(1, 4).link(1);
    std::string to(10, '.');
    link.post_receive(at(to), 1);
    pair.write(frame(2, 1, 1, 1, "x") + frame(2, 4, 1, 4, "123"));
    ASSERT_TRUE(await([&] { return link.received() == 1; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (!first) pair.write("4");
    if (!first) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    link.post_receive(at(to, 1), 3);
    if (first) pair.write("4");
    ASSERT_TRUE(await([&] { return link.failure() != nullptr; }));
    EXPECT_STREQ(link.failure()->what(),
                 "link to rank 1 (test, process 1): it violated the protocol: a message of 4 bytes does not match a "
                 "receive of 3");
    EXPECT_EQ(to, "x.........");
  }
}

TEST_P(Processes, ClosingALinkWithEagerMessagesDoesNotEndTheConnection) {
  RawConnectionPair pair(GetParam());
  Notifier notifier;
  std::string to(10, '.'), other(1, '.');
  auto half = pair.side.connection().open(1, 4, notifier), early = pair.side.connection().open(2, 4, notifier),
       goes_on = pair.side.connection().open(3, 4, notifier);
  for (Link* link : {half.get(), early.get()}) link->post_receive(at(to), 1);
  pair.write(frame(2, 1, 1, 1, "x") + frame(2, 1, 2, 1, "x") + frame(2, 2, 2, 2, "ab") + frame(2, 4, 1, 4, "12"));
  ASSERT_TRUE(await([&] { return half->received() == 1 && early->received() == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  half.reset();
  early.reset();
  goes_on->post_receive(at(other), 1);
  pair.write("34" + frame(2, 4, 1, 4, "5678") + frame(2, 2, 2, 2, "cd") + frame(2, 1, 3, 1, "y"));
  ASSERT_TRUE(await([&] { return goes_on->received() == 1; }))
      << (goes_on->failure() != nullptr ? goes_on->failure()->what() : "");
  EXPECT_EQ(other, "y");
  EXPECT_EQ(to, "x.........");
}

TEST_P(Processes, FramesMayArriveByteByByte) {
  auto sockets = GetParam().sockets();
  ConnectionEnd side(GetParam(), std::move(sockets[0]), 0);
  RawWire wire(GetParam(), std::move(sockets[1]));
  Endpoint& end = side.open(1, 4);
  std::string to(8, '.');
  end.link(1).post_receive(reinterpret_cast<std::byte*>(&to[0]), 4);
  end.link(1).post_receive(reinterpret_cast<std::byte*>(&to[4]), 4);
  std::string bytes = frame(2, 3, 1, 4, "abc") + frame(2, 1, 1, 4, "d") + frame(2, 4, 1, 4, "efgh");
  for (char& c : bytes) {
    iovec from{&c, 1};
    ASSERT_TRUE(await([&] { return wire->write(&from, 1) == 1; }));
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  ASSERT_TRUE(await([&] { return end.link(1).received() == 2; }));
  EXPECT_EQ(to, "abcdefgh");
}

}  // namespace
}  // namespace karez::comm
