// Acceptor: listens at an address and accepts peers that prove that they have the token. The number and the
// duration of unfinished handshakes are limited.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "karez/comm/handshake.h"
#include "karez/comm/namespace.h"
#include "karez/comm/reactor.h"
#include "karez/comm/socket.h"

namespace karez::comm {

struct AcceptorLimits {
  int half_open = 64;    // unfinished handshakes; beyond that a silent or slow connection is closed, or the new one
  Seconds handshake{5};  // the most time for one

  // Limits for a world of `ranks` ranks, which may all connect at once, over two connections each.
  static AcceptorLimits for_ranks(int ranks) { return {.half_open = std::max(64, 2 * ranks)}; }
};

class Acceptor : private EventHandler {
 public:
  // Called on the reactor's thread with a socket whose handshake is done and the number of the peer; must not block.
  using AcceptHandler = std::function<void(Descriptor socket, std::uint32_t who)>;

  Acceptor(Reactor& reactor, Address address, const Token& token, std::string purpose, AcceptHandler on_accept,
           AcceptorLimits limits = {});
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  const Address& address() const { return address_; }                                  // with the assigned port
  std::int64_t rejected() const { return rejected_.load(std::memory_order_relaxed); }  // the first one is logged

 private:
  struct PendingConnection;

  void on_events(std::uint32_t events) noexcept override;
  void check_timeouts();
  void accept_all();
  void reject(PendingConnection& pending, const std::string& why);
  void count_rejected(const std::string& why);
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
