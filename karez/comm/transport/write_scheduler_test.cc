// Tests of the write scheduler: the order of frames, the limits of a sender's thread, and the writing role.
#include "karez/comm/transport/write_scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "karez/comm/transport/frame.h"

namespace karez::comm {
namespace {

// A wire that records what is written to it, up to a number of bytes.
class RecordingWire : public Wire {
 public:
  std::int64_t read(const iovec*, int) override { return 0; }
  std::int64_t write(const iovec* from, int) override {
    if (ended) return -1;
    const std::size_t n = std::min(from->iov_len, capacity);
    recorded.append(static_cast<const char*>(from->iov_base), n);
    capacity -= n;
    return static_cast<std::int64_t>(n);
  }
  std::string reason() const override { return "it ended"; }
  bool wait_to_read() override { return true; }
  bool wait_to_write() override { return true; }
  int descriptor() const override { return -1; }
  std::uint32_t events(bool) const override { return 0; }
  void set_busy_poll(bool) override {}
  void handle_wakeup() override {}
  void finish_writing() override {}
  bool has_recent_ack(Seconds) const override { return true; }
  void shut() override { ended = true; }

  std::string recorded;
  std::size_t capacity = std::size_t{1} << 40;
  bool ended = false;
};

class WriteSchedulerTest : public ::testing::Test {
 protected:
  // Opens a channel whose peer has announced a receive of each size.
  Channel& open(std::uint64_t number, const std::vector<std::int64_t>& credits) {
    Channel& channel = channels.open(number, 8, notifier);
    for (std::int64_t size : credits) channel.credits[channel.slot(channel.credit_count++)] = size;
    return channel;
  }
  void post_send(Channel& channel, std::int64_t bytes) {
    channel.sends[channel.slot(channel.send_count++)] = {nullptr, data.data(), bytes};
    writer.queue(channel);
  }
  bool write_now() {
    std::unique_lock lock(channels.mutex);
    return writer.write_now(lock);
  }
  // Prints the frames that were written: "data 1: 5", "credit 2: 8", "close 3".
  std::vector<std::string> written_frames() const {
    std::vector<std::string> out;
    for (std::size_t offset = 0; offset + Frame::bytes <= wire.recorded.size();) {
      Frame frame;
      std::string reason;
      if (!decode(reinterpret_cast<const std::byte*>(wire.recorded.data() + offset), frame, reason)) return {reason};
      offset += Frame::bytes;
      if (frame.kind == Frame::Kind::close) out.push_back(cat("close ", frame.channel));
      else if (frame.kind == Frame::Kind::credit) out.push_back(cat("credit ", frame.channel, ": ", frame.size));
      else out.push_back(cat("data ", frame.channel, ": ", frame.length)), offset += frame.length;
    }
    return out;
  }

  using Frames = std::vector<std::string>;
  std::vector<std::byte> data = std::vector<std::byte>(4 << 20);
  Notifier notifier;
  ChannelTable channels{"rank 1"};
  RecordingWire wire;
  int deferred = 0;
  WriteScheduler writer{channels, wire, [this] { ++deferred; }};
};

TEST_F(WriteSchedulerTest, ChannelsAlternateAndCreditsPrecedeData) {
  Channel &first = open(1, {5, 6}), &second = open(2, {7});
  post_send(first, 5);
  post_send(first, 6);
  post_send(second, 7);
  second.receives[0] = {data.data(), nullptr, 8};
  second.receive_count = second.credits_due = 1;
  EXPECT_TRUE(write_now());
  EXPECT_EQ(written_frames(), (Frames{"data 1: 5", "credit 2: 8", "data 2: 7", "data 1: 6"}));
  EXPECT_EQ(first.messages_sent, 2);
  EXPECT_EQ(first.bytes_sent, 11);
  EXPECT_EQ(second.messages_sent, 1);
  EXPECT_EQ(deferred, 0);
  EXPECT_TRUE(writer.is_idle());
}

TEST_F(WriteSchedulerTest, ALongMessageIsLeftToTheReactorAndSplitIntoFrames) {
  Channel& channel = open(1, {3 << 20});
  post_send(channel, 3 << 20);
  EXPECT_TRUE(write_now());
  EXPECT_EQ(written_frames(), Frames{});
  EXPECT_EQ(deferred, 1);
  EXPECT_TRUE(writer.is_deferred());
  EXPECT_TRUE(writer.resume(16, Frame::max_length));
  EXPECT_EQ(written_frames(), (Frames{"data 1: 1048576", "data 1: 1048576", "data 1: 1048576"}));
  EXPECT_EQ(channel.messages_sent, 1);
  EXPECT_FALSE(writer.is_deferred());
}

TEST_F(WriteSchedulerTest, AFullWireDefersTheRestOfAFrame) {
  wire.capacity = 10;
  Channel& channel = open(1, {5});
  post_send(channel, 5);
  EXPECT_TRUE(write_now());
  EXPECT_EQ(wire.recorded.size(), 10u);
  EXPECT_TRUE(writer.is_deferred());
  EXPECT_EQ(channel.messages_sent, 0);
  wire.capacity = 1000;
  EXPECT_TRUE(writer.resume(1, Frame::max_length));
  EXPECT_EQ(written_frames(), Frames{"data 1: 5"});
  EXPECT_EQ(channel.messages_sent, 1);
}

TEST_F(WriteSchedulerTest, AnEndedWireIsReportedToTheCaller) {
  wire.ended = true;
  post_send(open(1, {5}), 5);
  EXPECT_FALSE(write_now());
  EXPECT_TRUE(writer.is_idle());
  EXPECT_EQ(channels.failure.load(), nullptr) << "only the reading thread may report the failure";
}

TEST_F(WriteSchedulerTest, AClosedChannelWritesItsCloseAndNoMoreData) {
  Channel& channel = open(1, {5});
  post_send(channel, 5);
  channel.closed = channel.close_pending = true;
  EXPECT_TRUE(write_now());
  EXPECT_EQ(written_frames(), Frames{"close 1"});
  EXPECT_TRUE(channel.close_sent);
}

}  // namespace
}  // namespace karez::comm
