// Connection: all links between this process and one other, multiplexed on one wire, with credits.
//
// A posted receive is announced by a credit. A send waits for a credit; its bytes then go straight into the posted
// memory. Short messages do not wait: a bounded number of bytes of each link may arrive before their receive (eager.h).
// So there is always memory for the data that arrives. A message can be as long as memory: it is split into frames
// (frame.h), and channels alternate.
//
// The thread that sends or posts writes to the wire itself if no other thread is writing and there is little to write.
// The reactor's thread, or a thread that polls (Link::set_busy_poll), writes the rest and reads everything.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "karez/comm/frame.h"
#include "karez/comm/link.h"
#include "karez/comm/namespace.h"
#include "karez/comm/reactor.h"
#include "karez/comm/wire.h"

namespace karez::comm {

struct Channel;

class Connection : private EventHandler {
 public:
  // `peer` is the name of the other process in errors: "rank 1 (alpha, process 4711)".
  Connection(Reactor& reactor, std::unique_ptr<Wire> wire, std::string peer);
  ~Connection();  // after its links are closed; the peer sees the end
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // One end of a link; the peer opens the other end with the same number and depth, earlier or later. A number is used
  // once; the memory of a link is freed once both ends have closed it. The link must be closed before the connection.
  // If a message of it is half transferred at that moment, the connection fails, so that memory which may be freed is
  // not accessed.
  std::unique_ptr<Link> open(std::uint64_t channel, int depth, Notifier& notifier);

  const std::string& peer() const { return peer_; }
  const Error* failure() const { return failure_.load(std::memory_order_acquire); }
  void end(const std::string& why);  // as if the wire had ended; its links are notified soon
  bool has_recent_ack(Seconds within) const { return wire_->has_recent_ack(within); }  // by the peer's kernel
  std::int64_t bytes_received() const {
    return bytes_received_.load(std::memory_order_relaxed);
  }  // all bytes received; callable from any thread

 private:
  friend class ChannelLink;
  struct Batch;

  void on_events(std::uint32_t events) noexcept override;
  void poll();
  void set_busy_poll(bool polling);
  bool rearm_events();
  void post_receive(Channel& channel, std::byte* into, std::int64_t bytes);
  void send(Channel& channel, const std::byte* from, std::int64_t bytes);
  void close(Channel& channel);
  void forget_closed(Channel& channel);

  // Writing. The thread that has set writing_ writes; blocked_ means that this role is free for the next caller, the
  // reactor or a polling thread.
  void queue(Channel& channel);
  void write_now(std::unique_lock<std::mutex>& lock);
  void write_on(int batches, std::int64_t most);
  void write(int batches, std::int64_t most);
  void fill(std::int64_t most);
  void account();
  void defer_writing();

  // Reading. The thread that has set reading_ reads.
  bool read_some();
  void read_to_the_end();
  bool parse();
  Channel* channel_of_peer(std::uint64_t number);
  bool take_close(const Frame& frame);
  bool take_credit(const Frame& frame);
  bool take_data(const Frame& frame);
  void take_frame(Channel& channel, std::byte* into, std::int64_t length);
  bool take_eager(Channel& channel);
  std::byte* discard_buffer();
  void finish_frame();
  void finish(const std::string& why);
  void publish_failure();
  bool refuse(const std::string& why);

  Reactor& reactor_;
  std::unique_ptr<Wire> wire_;
  std::string peer_;
  Reactor::Registration registration_;

  std::mutex mutex_;  // held for a few loads and stores, never during a call of the wire that moves bytes
  std::condition_variable released_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Channel>> channels_;
  Channel *first_ = nullptr, *last_ = nullptr;  // queue of channels with something to write
  bool writing_ = false, blocked_ = false, ended_ = false;
  int polling_ = 0;
  std::string why_;  // why it ended; set by the first thread that notices
  std::unique_ptr<Error> error_;
  std::atomic<const Error*> failure_{nullptr};
  std::unique_ptr<Batch> batch_;

  std::atomic<bool> reading_{false};
  std::atomic<std::int64_t> bytes_received_{0};  // written by the reading thread
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // bytes in buffer_ that are read but not parsed
  Channel* into_ = nullptr;          // the channel of the arriving message
  bool into_eager_ = false;          // its receive is not posted yet
  std::vector<std::byte> discard_buffer_;
  std::byte* at_ = nullptr;
  std::int64_t length_ = 0, left_ = 0;  // of the current frame; bytes of it still to come
};

}  // namespace karez::comm
