// Socket wire: the wire over a stream socket, such as TCP.
#pragma once

#include <atomic>

#include "karez/comm/namespace.h"
#include "karez/comm/transport/socket.h"
#include "karez/comm/transport/wire.h"

namespace karez::comm {

class SocketWire : public Wire {
 public:
  explicit SocketWire(Descriptor socket);  // connected, non-blocking

  std::int64_t read(const iovec* into, int parts) override;
  std::int64_t write(const iovec* from, int parts) override;
  std::string reason() const override;
  bool wait_to_read() override { return true; }  // the next arrival triggers an event
  bool wait_to_write() override;
  int descriptor() const override { return socket_.get(); }
  std::uint32_t events(bool reader_polls) const override;
  void set_busy_poll(bool) override {}
  void handle_wakeup() override {}
  void finish_writing() override;
  bool has_recent_ack(Seconds within) const override;
  void shut() override;

 private:
  std::int64_t end(int error);

  Descriptor socket_;
  std::atomic<int> error_{0};  // system error; 0 if the peer closed the connection
};

}  // namespace karez::comm
