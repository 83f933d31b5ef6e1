// Wire: a non-blocking stream of bytes each way between two processes; the interface of a connection to TCP, shared
// memory or UCX.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <string>

#include "karez/comm/namespace.h"
#include "karez/comm/reactor.h"
#include "karez/comm/socket.h"

namespace karez::comm {

// One thread at a time reads and one writes; they may be different threads. Nothing is allocated after construction.
class Wire {
 public:
  virtual ~Wire() = default;

  // Both return the number of bytes moved, in the order of the parts; 0: none can be moved now; -1: this direction has
  // ended, for the reason that `reason` returns.
  virtual std::int64_t read(const iovec* into, int parts) = 0;
  virtual std::int64_t write(const iovec* from, int parts) = 0;
  virtual std::string reason() const = 0;

  // To be called after a call that moved nothing. True: the reactor will report when another try is worthwhile; false:
  // it is worthwhile now.
  virtual bool wait_to_read() = 0;
  virtual bool wait_to_write() = 0;

  // The source of edge-triggered events; `events` are those to watch, fewer while the reader polls.
  virtual int descriptor() const = 0;
  virtual std::uint32_t events(bool reader_polls) const = 0;
  virtual void set_busy_poll(bool reader_polls) = 0;
  virtual void handle_wakeup() = 0;  // called by the reactor's thread before it reads and writes

  virtual void finish_writing() = 0;  // the other side reads all written data, then the end
  // Whether the other end's kernel has acknowledged anything within this time; always true on this host.
  virtual bool has_recent_ack(Seconds within) const = 0;

  virtual void shut() = 0;  // from any thread, repeatedly: ends both directions, here and at the peer
};

}  // namespace karez::comm
