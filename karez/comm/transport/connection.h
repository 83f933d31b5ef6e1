// Connection: all links between this process and one other, multiplexed on one wire, with credits.
//
// A posted receive is announced by a credit. A send waits for a credit; its bytes then go straight into the posted
// memory. Short messages do not wait: a bounded number of bytes of each link may arrive before their receive (eager.h).
// So there is always memory for the data that arrives. A message of any length is split into frames (frame.h), and the
// channels alternate.
//
// A thread that sends or posts may write to the wire itself (write_scheduler.h). The reactor's thread, or a thread that
// polls (Link::set_busy_poll), writes the rest and reads everything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "karez/comm/namespace.h"
#include "karez/comm/transport/channel_table.h"
#include "karez/comm/transport/frame_reader.h"
#include "karez/comm/transport/link.h"
#include "karez/comm/transport/reactor.h"
#include "karez/comm/transport/wire.h"
#include "karez/comm/transport/write_scheduler.h"

namespace karez::comm {

class Connection : private EventHandler {
 public:
  // `peer` is the name of the other process in errors: "rank 1 (alpha, process 4711)".
  Connection(Reactor& reactor, std::unique_ptr<Wire> wire, std::string peer);
  ~Connection();  // call after its links are closed; the peer then reads the end of the wire
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Opens one end of a link; the peer opens the other end with the same number and depth, earlier or later. A number is
  // used once; the memory of a link is freed once both ends have closed it. The link must be closed before the
  // connection. If a link is closed in the middle of a message, the connection fails, because the memory of that
  // message may be freed and must not be accessed.
  std::unique_ptr<Link> open(std::uint64_t channel, int depth, Notifier& notifier);

  const std::string& peer() const { return channels_.peer; }
  const Error* failure() const { return channels_.failure.load(std::memory_order_acquire); }
  bool has_recent_ack(Seconds within) const { return wire_->has_recent_ack(within); }  // by the peer's kernel
  std::int64_t bytes_received() const { return reader_.bytes_received(); }             // callable from any thread

 private:
  friend class ChannelLink;

  void on_events(std::uint32_t events) noexcept override;
  void poll();
  void set_busy_poll(bool polling);
  bool rearm_events();
  void post_receive(Channel& channel, std::byte* into, std::int64_t bytes);
  void send(Channel& channel, const std::byte* from, std::int64_t bytes);
  void close(Channel& channel);
  void write_now(std::unique_lock<std::mutex>& lock);
  void resume_writing(int batches, std::int64_t max_bytes);
  void read_ended_wire();

  Reactor& reactor_;
  std::unique_ptr<Wire> wire_;
  ChannelTable channels_;
  int polling_threads_ = 0;  // guarded by the lock of channels_
  Reactor::Registration registration_;
  WriteScheduler writer_;
  FrameReader reader_;
};

}  // namespace karez::comm
