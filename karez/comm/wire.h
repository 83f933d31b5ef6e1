// A wire: a stream of bytes each way between two processes that never blocks. What a connection needs of TCP or of
// shared memory.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <string>

#include "karez/comm/namespace.h"
#include "karez/comm/reactor.h"
#include "karez/comm/socket.h"

namespace karez::comm {

// Reading is one thread's business at a time, and so is writing; the two may be different threads. Nothing allocates
// after construction.
class Wire {
 public:
  virtual ~Wire() = default;

  // Both: bytes that went, in the order of the parts; 0: none can go now; -1: this direction has ended, and `reason`
  // says why.
  virtual std::int64_t read(const iovec* into, int parts) = 0;
  virtual std::int64_t write(const iovec* from, int parts) = 0;
  virtual std::string reason() const = 0;

  // After a call that moved nothing: true: the reactor is going to call when it is worth another try; false: it is
  // worth it now.
  virtual bool wait_to_read() = 0;
  virtual bool wait_to_write() = 0;

  // Where events come from, edge by edge; `events` are those to watch it for, fewer while the reader promises to look
  // by itself.
  virtual int descriptor() const = 0;
  virtual std::uint32_t events(bool reader_polls) const = 0;
  virtual void set_busy_poll(bool reader_polls) = 0;
  virtual void handle_wakeup() = 0;  // by the reactor's thread, before it reads and writes

  virtual void finish_writing() = 0;  // the other side reads what was written, then the end
  // Whether the other end's kernel has acknowledged anything for so long; one on this host always does.
  virtual bool has_recent_ack(Seconds within) const = 0;

  virtual void shut() = 0;  // from any thread, more than once: both directions end, here and at the peer
};

}  // namespace karez::comm
