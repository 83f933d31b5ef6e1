// A connection: all links between this process and one other, multiplexed on one wire, with credits.
//
// A posted receive travels as a credit; a send waits for one; its bytes then go straight into the memory that was
// posted. Short messages do not wait: a bounded number of bytes of each link may come before their receive (early.h).
// So nothing arrives that has no place, and a message can be as long as memory: it goes in frames (frame.h), and
// channels take turns.
//
// Whoever sends or posts writes to the wire in its own thread if nobody else does and there is little to write; what
// remains, and all that arrives, is the reactor's thread's, or that of whoever stays awake (Link::set_busy_poll).
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
  // `peer` is how errors call the other process: "rank 1 (alpha, process 4711)".
  Connection(Reactor& reactor, std::unique_ptr<Wire> wire, std::string peer);
  ~Connection();  // its links are gone by then; the peer sees the end
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // One end of a link; the peer opens the other one by the same number and the same depth, sooner or later. A number is
  // used once; what a link takes here is freed once both ends have closed it. The link must go before the connection.
  // Where messages of it are half gone at that moment, the connection fails: memory is not read or written that may be
  // gone.
  std::unique_ptr<Link> open(std::uint64_t channel, int depth, Notifier& notifier);

  const std::string& peer() const { return peer_; }
  const Error* failure() const { return failure_.load(std::memory_order_acquire); }
  void end(const std::string& why);  // as if the wire had ended; links ring soon
  bool has_recent_ack(Seconds within) const { return wire_->has_recent_ack(within); }  // by the peer's kernel
  std::int64_t bytes_received() const {
    return bytes_received_.load(std::memory_order_relaxed);
  }  // bytes that came, ever; from any thread

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

  // Writing. Who has set writing_ writes; blocked_ says that the role waits for whoever comes next, the reactor or a
  // thread that is awake.
  void queue(Channel& channel);
  void write_now(std::unique_lock<std::mutex>& lock);
  void write_on(int batches, std::int64_t most);
  void write(int batches, std::int64_t most);
  void fill(std::int64_t most);
  void account();
  void defer_writing();

  // Reading. Who has set reading_ reads.
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
  Channel *first_ = nullptr, *last_ = nullptr;  // have something to write; they take turns
  bool writing_ = false, blocked_ = false, ended_ = false;
  int polling_ = 0;
  std::string why_;  // of the end, by whoever saw it first
  std::unique_ptr<Error> error_;
  std::atomic<const Error*> failure_{nullptr};
  std::unique_ptr<Batch> batch_;

  std::atomic<bool> reading_{false};
  std::atomic<std::int64_t> bytes_received_{0};  // written by who reads
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // of what is read and not yet understood
  Channel* into_ = nullptr;          // whose message arrives
  bool into_eager_ = false;          // before its receive is posted
  std::vector<std::byte> discard_buffer_;
  std::byte* at_ = nullptr;
  std::int64_t length_ = 0, left_ = 0;  // of the frame
};

}  // namespace karez::comm
