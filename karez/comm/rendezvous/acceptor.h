// Acceptor: listens at an address and accepts peers that prove that they have the token. It limits the number and the
// duration of unfinished handshakes.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "karez/comm/namespace.h"
#include "karez/comm/rendezvous/handshake.h"
#include "karez/comm/transport/reactor.h"
#include "karez/comm/transport/socket.h"

namespace karez::comm {

struct AcceptorLimits {
  // Maximum number of unfinished handshakes. When it is reached, a silent or slow connection is closed for a new one;
  // if there is none, the new connection is closed.
  int half_open = 64;
  Seconds handshake{5};  // maximum duration of a handshake

  // Returns the limits for a world of `ranks` ranks, which may all connect at the same time, over two connections each.
  static AcceptorLimits for_ranks(int ranks) { return {.half_open = std::max(64, 2 * ranks)}; }
};

class Acceptor : private EventHandler {
 public:
  // Called on the reactor's thread with a socket whose handshake is done and the peer's number. It must not block.
  using AcceptHandler = std::function<void(Descriptor socket, std::uint32_t number)>;

  Acceptor(Reactor& reactor, Address address, const Token& token, std::string purpose, AcceptHandler on_accept,
           AcceptorLimits limits = {});
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  const Address& address() const { return address_; }  // with the port that was assigned
  std::int64_t rejected() const { return rejected_.load(std::memory_order_relaxed); }  // the first rejection is logged

 private:
  struct PendingConnection;

  void on_events(std::uint32_t events) noexcept override;
  void check_timeouts();
  void accept_all();
  void reject(PendingConnection& pending, const std::string& reason);
  void count_rejected(const std::string& reason);
  void pause();

  Reactor& reactor_;
  Address address_;
  Token token_;
  std::string purpose_;
  AcceptHandler on_accept_;
  AcceptorLimits limits_;
  Descriptor listener_;
  Reactor::Registration registration_;
  struct HandshakeTimer;
  std::unique_ptr<HandshakeTimer> timer_;
  std::list<std::unique_ptr<PendingConnection>> pending_;  // oldest first; used on the reactor's thread only
  bool paused_ = false, exhaustion_logged_ = false;
  std::atomic<std::int64_t> rejected_{0};
};

}  // namespace karez::comm
