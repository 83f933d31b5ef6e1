// Tests of closing links while their connection stays open: their memory is freed, and other links are not affected.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "karez/comm/transport/frame.h"
#include "karez/comm/transport/test_links.h"

namespace karez::comm {
namespace {
using namespace test;

// A wire that accepts a number of bytes set by the test, and records them.
class LimitedWire : public Wire {
 public:
  explicit LimitedWire(std::size_t capacity) : capacity_(capacity) {}
  void add_capacity(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    capacity_ += bytes;
    eventfd_write(event_.get(), 1);
  }
  std::string recorded() const {
    std::lock_guard lock(mutex_);
    return recorded_;
  }
  std::int64_t read(const iovec*, int) override { return ended_ ? -1 : 0; }
  std::int64_t write(const iovec* from, int) override {
    std::lock_guard lock(mutex_);
    if (ended_) return -1;
    const std::size_t n = std::min(from->iov_len, capacity_);
    recorded_.append(static_cast<const char*>(from->iov_base), n);
    capacity_ -= n;
    return static_cast<std::int64_t>(n);
  }
  std::string reason() const override { return "it ended"; }
  bool wait_to_read() override { return true; }
  bool wait_to_write() override { return true; }
  int descriptor() const override { return event_.get(); }
  std::uint32_t events(bool) const override { return EPOLLIN | EPOLLET; }
  void set_busy_poll(bool) override {}
  void handle_wakeup() override {}
  void finish_writing() override { ended_ = true; }
  bool has_recent_ack(Seconds) const override { return true; }
  void shut() override {
    ended_ = true;
    eventfd_write(event_.get(), 1);
  }

 private:
  const Descriptor event_{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  mutable std::mutex mutex_;
  std::size_t capacity_;
  std::string recorded_;
  std::atomic<bool> ended_{false};
};

// Prints the kinds and channels of frames without data: "credit 1, close 1".
std::string print_frames(const std::string& bytes) {
  std::string out;
  for (std::size_t offset = 0; offset + Frame::bytes <= bytes.size(); offset += Frame::bytes) {
    Frame frame;
    std::string reason;
    if (!decode(reinterpret_cast<const std::byte*>(bytes.data() + offset), frame, reason)) return reason;
    out += cat(out.empty() ? "" : ", ",
               frame.kind == Frame::Kind::credit  ? "credit "
               : frame.kind == Frame::Kind::close ? "close "
                                                  : "data ",
               frame.channel);
  }
  return out;
}

TEST(LinkClose, ClosingALinkWithAHalfSentCreditDoesNotAffectOtherLinks) {
  Reactor reactor;
  auto wire = std::make_unique<LimitedWire>(10);  // less than a frame
  LimitedWire& limited_wire = *wire;
  Connection connection(reactor, std::move(wire), "rank 1");
  Notifier notifier;
  auto first = connection.open(1, 1, notifier), second = connection.open(2, 1, notifier);
  std::byte into[8];
  first->post_receive(into, 8);
  first.reset();
  second->post_receive(into, 8);
  ASSERT_EQ(connection.failure(), nullptr) << connection.failure()->what();
  limited_wire.add_capacity(1000);
  EXPECT_TRUE(await([&] { return print_frames(limited_wire.recorded()) == "credit 1, close 1, credit 2"; }))
      << print_frames(limited_wire.recorded());
  EXPECT_EQ(connection.failure(), nullptr);
}

TEST(LinkClose, AClosedLinkDoesNotNotify) {
  Reactor reactor;
  auto wire = std::make_unique<LimitedWire>(1000);
  LimitedWire& limited_wire = *wire;
  auto connection = std::make_unique<Connection>(reactor, std::move(wire), "rank 1");
  Notifier closed_notifier, open_notifier;
  auto first = connection->open(1, 1, closed_notifier), second = connection->open(2, 1, open_notifier);
  first.reset();
  limited_wire.shut();
  EXPECT_TRUE(await([&] { return open_notifier.failed(); }));
  second.reset();
  connection.reset();
  EXPECT_FALSE(closed_notifier.failed()) << "a closed link must not notify, because the notifier may be destroyed";
}

class LinkCloseByTransport : public ::testing::TestWithParam<TransportKind> {};
INSTANTIATE_TEST_SUITE_P(Transports, LinkCloseByTransport, ::testing::ValuesIn(transports),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(LinkCloseByTransport, ManyConsecutiveLinksUseNoMoreMemoryThanAFew) {
  const TransportKind& transport = GetParam();
  if (!transport.exists() || transport.sockets == nullptr) return;  // a link within a process has no connection
  auto sockets = transport.sockets();
  ConnectionEnd sending(transport, std::move(sockets[0]), 0), receiving(transport, std::move(sockets[1]), 1);
  Notifier notifier;
  std::int64_t message = 0, into = 0;
  auto open_and_close = [&](std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t i = first; i < first + count; ++i) {
      auto sender = sending.connection().open(i, 2, notifier), receiver = receiving.connection().open(i, 2, notifier);
      receiver->post_receive(reinterpret_cast<std::byte*>(&into), sizeof into);
      if (i % 64 == 0) {  // with a message; other links close before their credit is read
        message = static_cast<std::int64_t>(i);
        sender->send(reinterpret_cast<const std::byte*>(&message), sizeof message);
        ASSERT_TRUE(await([&] { return receiver->received() == 1 && sender->sent() == 1; })) << i;
        ASSERT_EQ(into, message);
      }
    }
  };
  open_and_close(1, 2'000);
  const auto initial_bytes = mallinfo2().uordblks;
  // More links than a peer may name before they are opened.
  open_and_close(100'000, std::getenv("KAREZ_ALL") != nullptr ? 1'000'000 : 70'000);
  const auto final_bytes = mallinfo2().uordblks;
  EXPECT_LT(final_bytes, initial_bytes + (4 << 20))
      << "closed links must not keep more than 4 MB; with 2 KB for each, 70,000 links would keep 140 MB";
  EXPECT_EQ(sending.connection().failure(), nullptr);
}

}  // namespace
}  // namespace karez::comm
