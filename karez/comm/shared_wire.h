// The wire between two processes of a host: a segment of shared memory with a ring of bytes each way.
//
// A socket beside it (of the same kernel) carries the segment at the start, knocks where the other side sleeps, and
// tells its death. The segment never has a name: nothing is left behind whoever is killed. An index that the peer
// cannot have meant ends the wire.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "karez/comm/namespace.h"
#include "karez/comm/socket.h"
#include "karez/comm/wire.h"

namespace karez::comm {

class SharedWire : public Wire {
 public:
  // One side makes the segment, the other takes it from the socket and waits at most so long for it. Both throw Error
  // (kind peer, device).
  static std::unique_ptr<SharedWire> create(Descriptor socket,
                                            std::size_t ring_bytes = default_ring_bytes);  // a power of two
  static std::unique_ptr<SharedWire> attach(Descriptor socket, Seconds timeout);
  ~SharedWire() override;

  std::int64_t read(const iovec* into, int parts) override;
  std::int64_t write(const iovec* from, int parts) override;
  std::string reason() const override;
  bool wait_to_read() override;
  bool wait_to_write() override;
  int descriptor() const override { return socket_.get(); }
  std::uint32_t events(bool reader_polls) const override;
  void set_busy_poll(bool reader_polls) override;
  void handle_wakeup() override;
  void finish_writing() override;
  bool has_recent_ack(Seconds) const override { return true; }
  void shut() override;

  static constexpr std::size_t default_ring_bytes = 1 << 20;

 private:
  struct RingHeader;
  SharedWire(Descriptor socket, void* memory, std::size_t ring_bytes, bool creator);
  void wake_peer();

  Descriptor socket_;
  void* memory_;
  std::size_t ring_bytes_;
  RingHeader *out_, *in_;
  std::byte *out_ring_, *in_ring_;
  std::uint64_t head_ = 0, tail_ = 0;  // bytes ever written to out_ and read from in_: ours, whatever the segment says
  std::atomic<bool> closed_{false}, damaged_{false};
};

}  // namespace karez::comm
