// Closing links while their connection stays open: their memory is freed, and other links are not affected.
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

#include "karez/comm/frame.h"
#include "karez/comm/test_links.h"

namespace karez::comm {
namespace {
using namespace test;

// A wire that accepts the number of bytes that the test allows, and records them.
class LimitedWire : public Wire {
 public:
  explicit LimitedWire(std::size_t allowed) : allowed_(allowed) {}
  void allow(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    allowed_ += bytes;
    eventfd_write(event_.get(), 1);
  }
  std::string written() const {
    std::lock_guard lock(mutex_);
    return written_;
  }
  std::int64_t read(const iovec*, int) override { return ended_ ? -1 : 0; }
  std::int64_t write(const iovec* from, int) override {
    std::lock_guard lock(mutex_);
    if (ended_) return -1;
    const std::size_t n = std::min(from->iov_len, allowed_);
    written_.append(static_cast<const char*>(from->iov_base), n);
    allowed_ -= n;
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
  std::size_t allowed_;
  std::string written_;
  std::atomic<bool> ended_{false};
};

// "credit 1, close 1": the kinds and channels of frames without data.
std::string print_frames(const std::string& bytes) {
  std::string out;
  for (std::size_t at = 0; at + Frame::bytes <= bytes.size(); at += Frame::bytes) {
    Frame frame;
    std::string reason;
    if (!decode(reinterpret_cast<const std::byte*>(bytes.data() + at), frame, reason)) return reason;
    out += cat(out.empty() ? "" : ", ",
               frame.kind == Frame::Kind::credit  ? "credit "
               : frame.kind == Frame::Kind::close ? "close "
                                                  : "data ",
               frame.channel);
  }
  return out;
}

TEST(LinkClose, ClosingALinkWhoseCreditIsHalfSentDoesNotAffectOthers) {
  Reactor reactor;
  auto wire = std::make_unique<LimitedWire>(10);  // less than a frame
  LimitedWire& written = *wire;
  Connection connection(reactor, std::move(wire), "rank 1");
  Notifier notifier;
  auto first = connection.open(1, 1, notifier), second = connection.open(2, 1, notifier);
  std::byte into[8];
  first->post_receive(into, 8);
  first.reset();
  second->post_receive(into, 8);
  ASSERT_EQ(connection.failure(), nullptr) << connection.failure()->what();
  written.allow(1000);
  EXPECT_TRUE(await([&] { return print_frames(written.written()) == "credit 1, close 1, credit 2"; }))
      << print_frames(written.written());
  EXPECT_EQ(connection.failure(), nullptr);
}

TEST(LinkClose, AClosedLinkDoesNotNotify) {
  Reactor reactor;
  auto connection = std::make_unique<Connection>(reactor, std::make_unique<LimitedWire>(1000), "rank 1");
  Notifier closed, open;
  auto first = connection->open(1, 1, closed), second = connection->open(2, 1, open);
  first.reset();
  connection->end("a test");
  EXPECT_TRUE(await([&] { return open.failed(); }));
  second.reset();
  connection.reset();
  EXPECT_FALSE(closed.failed()) << "its owner may be destroyed";
}

class LinkCloseByTransport : public ::testing::TestWithParam<TransportKind> {};
INSTANTIATE_TEST_SUITE_P(Transports, LinkCloseByTransport, ::testing::ValuesIn(transports),
                         [](const auto& kind) { return kind.param.name; });

TEST_P(LinkCloseByTransport, ManyLinksInSequenceUseNoMoreMemoryThanAFew) {
  const TransportKind& transport = GetParam();
  if (!transport.exists() || transport.sockets == nullptr) return;  // a link within a process has no connection
  auto sockets = transport.sockets();
  ConnectionEnd left(transport, std::move(sockets[0]), 0), right(transport, std::move(sockets[1]), 1);
  Notifier notifier;
  std::int64_t message = 0, into = 0;
  auto open_and_close = [&](std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t i = first; i < first + count; ++i) {
      auto a = left.connection().open(i, 2, notifier), b = right.connection().open(i, 2, notifier);
      b->post_receive(reinterpret_cast<std::byte*>(&into), sizeof into);
      if (i % 64 == 0) {  // with a message; the others close before their credit is seen
        message = static_cast<std::int64_t>(i);
        a->send(reinterpret_cast<const std::byte*>(&message), sizeof message);
        ASSERT_TRUE(await([&] { return b->received() == 1 && a->sent() == 1; })) << i;
        ASSERT_EQ(into, message);
      }
    }
  };
  open_and_close(1, 2'000);
  const auto before = mallinfo2().uordblks;
  open_and_close(100'000, std::getenv("KAREZ_ALL") != nullptr
                              ? 1'000'000
                              : 70'000);  // more than a peer may name before they are opened
  const auto after = mallinfo2().uordblks;
  EXPECT_LT(after, before + (4 << 20)) << "bytes; 2 KB for each link would be 140 MB";
  EXPECT_EQ(left.connection().failure(), nullptr);
}

}  // namespace
}  // namespace karez::comm
