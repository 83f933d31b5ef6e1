// Wire: a non-blocking stream of bytes each way between two processes; connections use it for TCP, shared memory and
// UCX.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <string>

#include "karez/comm/namespace.h"
#include "karez/comm/transport/reactor.h"
#include "karez/comm/transport/socket.h"

namespace karez::comm {

// One thread at a time reads and one thread at a time writes; they may be different threads. Except for UCX, no
// function allocates memory.
class Wire {
 public:
  virtual ~Wire() = default;

  // Both move bytes in the order of the parts. They return the number of bytes moved, 0 if none can be moved now, and
  // -1 if this direction has ended; `reason` then returns why.
  virtual std::int64_t read(const iovec* into, int parts) = 0;
  virtual std::int64_t write(const iovec* from, int parts) = 0;
  virtual std::string reason() const = 0;

  // Call after a call that moved no bytes. Returns true if the reactor will report when to try again, and false if the
  // caller should try again now.
  virtual bool wait_to_read() = 0;
  virtual bool wait_to_write() = 0;

  // The descriptor of edge-triggered events, and the events to watch: fewer while the reader polls.
  virtual int descriptor() const = 0;
  virtual std::uint32_t events(bool reader_polls) const = 0;
  virtual void set_busy_poll(bool reader_polls) = 0;
  virtual void handle_wakeup() = 0;  // call in the reactor's thread before it reads and writes

  virtual void finish_writing() = 0;  // the other side reads all written data and then the end
  // Returns true if the kernel at the other end has acknowledged data within this time; always true on one host.
  virtual bool has_recent_ack(Seconds within) const = 0;

  virtual void shut() = 0;  // ends both directions at both ends; callable from any thread, repeatedly
};

}  // namespace karez::comm
