// Shared wire: the wire between two processes of a host, with a ring of bytes for each direction in shared memory.
//
// A Unix socket transfers the shared memory segment at the start, wakes the other side if it sleeps, and reports that
// the peer's process has ended. The segment has no name, so nothing remains if a process is killed. The segment also
// contains the indices of the rings; if the peer writes an impossible index, the wire ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "karez/comm/namespace.h"
#include "karez/comm/transport/socket.h"
#include "karez/comm/transport/wire.h"

namespace karez::comm {

class SharedWire : public Wire {
 public:
  // One side creates the segment; the other side receives the segment from the socket and waits for it at most
  // `timeout`. Both throw Error (kind peer or device). `ring_bytes` is a power of two.
  static std::unique_ptr<SharedWire> create(Descriptor socket, std::size_t ring_bytes = default_ring_bytes);
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
  std::uint64_t head_ = 0, tail_ = 0;  // bytes written to out_ring_ and read from in_ring_: this side's own counts,
                                       // which the peer cannot change
  std::atomic<bool> closed_{false}, invalid_{false};
};

}  // namespace karez::comm
