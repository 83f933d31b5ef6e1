// Tests of the frame reader: frames in pieces, frames that no correct peer sends, and the end of the wire.
#include "karez/comm/transport/frame_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "karez/base/error.h"
#include "karez/comm/transport/test_leak_check.h"
#include "karez/comm/transport/test_raw_wire.h"

namespace karez::comm {
namespace {
using namespace test;

class FrameReaderTest : public LeakCheckedTest {};
INSTANTIATE_TEST_SUITE_P(Transports, FrameReaderTest, process_transports(), transport_name);

// A wire that rejects every write, with the peer's last bytes, which can be read after an attempt to write.
class EndedWire : public Wire {
 public:
  explicit EndedWire(std::string last_bytes) : last_bytes_(std::move(last_bytes)) {}
  std::int64_t read(const iovec* into, int) override {
    if (!write_attempted_) return 0;
    const std::size_t n = std::min({into->iov_len, last_bytes_.size() - bytes_read_, std::size_t{10}});
    if (n == 0) return -1;
    std::memcpy(into->iov_base, last_bytes_.data() + bytes_read_, n);
    bytes_read_ += n;
    return static_cast<std::int64_t>(n);
  }
  std::int64_t write(const iovec*, int) override {
    write_attempted_ = true;
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
  const std::string last_bytes_;
  std::size_t bytes_read_ = 0;
  std::atomic<bool> write_attempted_{false};
};

TEST(FrameReader, DataThatArrivedBeforeAFailedWriteIsReceived) {
  Reactor reactor;
  Connection connection(reactor, std::make_unique<EndedWire>(make_frame(2, 30, 1, 30, std::string(30, 'x'))), "rank 1");
  Notifier notifier;
  auto link = connection.open(1, 1, notifier);
  std::string to(30, '.');
  link->post_receive(address_in(to), 30);  // its credit cannot be written
  ASSERT_TRUE(await([&] { return connection.failure() != nullptr; }));
  EXPECT_STREQ(connection.failure()->what(), "link to rank 1: it ended");
  EXPECT_EQ(link->received(), 1);
  EXPECT_EQ(to, std::string(30, 'x'));
}

TEST_P(FrameReaderTest, ALinkClosedInTheMiddleOfAMessageEndsTheConnection) {
  auto sockets = GetParam().sockets();
  Reactor reactor;
  Connection connection(reactor, GetParam().wire(std::move(sockets[0]), 0), "rank 1");
  RawWire wire(GetParam(), std::move(sockets[1]));
  Notifier notifier;
  auto incomplete = connection.open(1, 1, notifier), complete = connection.open(2, 1, notifier);
  std::string long_text(200, '.'), short_text(1, '.'),
      bytes = make_frame(2, 100, 1, 200, std::string(100, 'x')) + make_frame(2, 1, 2, 1, "y");
  incomplete->post_receive(address_in(long_text), 200);
  complete->post_receive(address_in(short_text), 1);
  ASSERT_TRUE(wire.write(bytes));
  ASSERT_TRUE(await([&] { return complete->received() == 1; }));
  incomplete.reset();  // its memory may be freed now
  ASSERT_TRUE(await([&] { return connection.failure() != nullptr; }));
  EXPECT_STREQ(connection.failure()->what(), "link to rank 1: a link was closed here in the middle of a message");
  EXPECT_TRUE(wire.read_to_end()) << "the peer must read the end, too";
}

TEST_P(FrameReaderTest, InvalidFramesEndTheConnectionWithAReason) {
  std::string many_credits;
  for (int i = 0; i < 5; ++i) many_credits += make_frame(1, 0, 1, 8);
  std::string many_links;
  for (int i = 0; i < 70000; ++i) many_links += make_frame(1, 0, 1000 + static_cast<unsigned>(i), 8);
  std::string short_messages;
  for (int i = 0; i < 65; ++i) short_messages += make_frame(2, 1, 1, 1, "x");
  const std::pair<std::string, std::string> rows[] = {
      {make_frame(7, 0, 1, 0), "a frame of unknown kind 7"},
      {std::string(24, 'G'), "a frame of unknown kind 1195853639"},
      {make_frame(2, 1 << 21, 1, 1 << 22), "a frame with 2097152 bytes of a message of 4194304 bytes"},
      {make_frame(2, 9, 1, 8), "a frame with 9 bytes of a message of 8 bytes"},
      {make_frame(2, 0, 1, 8), "a frame with 0 bytes of a message of 8 bytes"},
      {make_frame(1, 1 << 14, 1, 8), "a credit for 16384 more receives, which exceeds the limit of 8192"},
      {make_frame(1, 4, 1, 8), "more than 4 pending posted receives"},
      {make_frame(1, 0, 1, ~0ull), "a frame for a message of -1 bytes"},
      {make_frame(1, 0, 1, 1ull << 41), "a frame for a message of 2199023255552 bytes"},
      {make_frame(2, 8, 5, 8, "12345678"), "a message on a link that is not open here"},
      {make_frame(2, 8, 2, 8, "12345678"), "a message for which no receive is posted"},
      {make_frame(2, 8, 1, 8, "12345678"), "a message of 8 bytes does not match a receive of 4 bytes"},
      {make_frame(2, 3, 1, 4, "123") + make_frame(2, 3, 1, 4, "456"),
       "a message of 4 bytes does not match a receive of 4 bytes"},
      {make_frame(2, 4, 1, 4, "1234") + make_frame(2, 4, 1, 8, "1234"), "a message for which no receive is posted"},
      {make_frame(2, 4, 1, 4, "1234") + short_messages, "a message for which no receive is posted"},
      {make_frame(2, 4, 1, 4, "1234") + make_frame(2, 60000, 1, 60000, std::string(60000, 'x')) +
           make_frame(2, 6000, 1, 6000, std::string(6000, 'x')),
       "a message for which no receive is posted"},
      {many_credits, "more than 4 pending posted receives"},
      {many_links, "credits for more than 65536 links, or for a closed link"},
      {make_frame(3, 1, 1, 0), "a close frame with length 1 and size 0, which must both be 0"},
      {make_frame(3, 0, 1, 0) + make_frame(3, 0, 1, 0),
       "a close frame for more than 65536 links, or for a closed link"},
      {make_frame(3, 0, 1, 0) + make_frame(2, 4, 1, 4, "1234"), "a message on a link that is not open here"},
      {make_frame(3, 0, 1, 0) + make_frame(1, 0, 1, 8), "credits for more than 65536 links, or for a closed link"},
  };
  for (const auto& [bytes, reason] : rows) {
    auto sockets = GetParam().sockets();
    ConnectionEnd side(GetParam(), std::move(sockets[0]), 0);
    RawWire wire(GetParam(), std::move(sockets[1]));
    Endpoint& end = side.open(1, 4);
    side.open(2, 4);
    std::string to(6, '.');
    end.link(1).post_receive(address_in(to, 1), 4);
    std::byte credit[24];
    iovec into{credit, sizeof credit};
    ASSERT_TRUE(await([&] { return wire->read(&into, 1) == 24; }));  // the receive is announced
    iovec from{const_cast<char*>(bytes.data()), bytes.size()};
    const bool failed = await([&] {
      if (std::int64_t n = from.iov_len > 0 ? wire->write(&from, 1) : 0; n > 0)
        from = {static_cast<char*>(from.iov_base) + n, from.iov_len - n};
      return end.link(1).failure() != nullptr;
    });
    ASSERT_TRUE(failed) << reason;
    EXPECT_THAT(end.link(1).failure()->what(),
                ::testing::HasSubstr("link to rank 1 (test, process 1): the peer violated the protocol: " + reason));
    EXPECT_EQ(to[0], '.');
    EXPECT_EQ(to[5], '.') << "a byte outside the posted memory was written";
    EXPECT_TRUE(wire.read_to_end()) << "the peer must read the end, too, after: " << reason;
  }
}

TEST_P(FrameReaderTest, FramesMayArriveByteByByte) {
  auto sockets = GetParam().sockets();
  ConnectionEnd side(GetParam(), std::move(sockets[0]), 0);
  RawWire wire(GetParam(), std::move(sockets[1]));
  Endpoint& end = side.open(1, 4);
  std::string to(8, '.');
  end.link(1).post_receive(address_in(to), 4);
  end.link(1).post_receive(address_in(to, 4), 4);
  std::string bytes = make_frame(2, 3, 1, 4, "abc") + make_frame(2, 1, 1, 4, "d") + make_frame(2, 4, 1, 4, "efgh");
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
