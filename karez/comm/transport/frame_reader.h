// Frame reader: reads a connection's wire, parses the frames, and copies their data into posted receives.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "karez/comm/namespace.h"
#include "karez/comm/transport/channel_table.h"
#include "karez/comm/transport/frame.h"
#include "karez/comm/transport/wire.h"
#include "karez/comm/transport/write_scheduler.h"

namespace karez::comm {

class FrameReader {
 public:
  FrameReader(ChannelTable& channels, WriteScheduler& writer, Wire& wire);

  // Takes the reading role. Returns false if another thread has it. The role remains taken after the connection has
  // ended.
  bool try_acquire() { return !reading_.exchange(true, std::memory_order_acquire); }
  void release() { reading_.store(false, std::memory_order_release); }

  // These two functions are for the thread with the reading role. If `ended` of the channel table is set afterwards,
  // the thread must not release the role.
  bool read_some();  // returns true if data arrived
  // Reads the rest of a wire that has ended: data that the peer wrote before the end still counts.
  void read_to_end();

  // Copies the channel's first buffered message into its posted receive. If their sizes differ, it ends the wire, which
  // the reading thread then reports, and returns false. Call with the lock held.
  bool deliver_buffered(Channel& channel);

  std::int64_t bytes_received() const { return bytes_received_.load(std::memory_order_relaxed); }  // from any thread

 private:
  bool parse_buffer();
  bool handle_close(const Frame& frame);
  bool handle_credit(const Frame& frame);
  bool handle_data(const Frame& frame);
  void begin_frame(Channel& channel, std::byte* into, std::int64_t length, Channel::Arrival arrival);
  void finish_frame();
  std::byte* discard_buffer();
  bool reject(const std::string& violation);
  void finish(const std::string& reason);

  ChannelTable& channels_;
  WriteScheduler& writer_;
  Wire& wire_;
  std::atomic<bool> reading_{false};
  std::atomic<std::int64_t> bytes_received_{0};  // written by the reading thread
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // bytes in buffer_ that are read but not parsed
  Channel* channel_ = nullptr;       // of the frame that is arriving
  std::byte* position_ = nullptr;    // destination of its next byte
  std::int64_t frame_bytes_ = 0, missing_bytes_ = 0;
  std::vector<std::byte> discard_buffer_;
};

}  // namespace karez::comm
