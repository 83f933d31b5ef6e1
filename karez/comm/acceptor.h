// The door of a process: listens at an address and lets in who knows the token. Strangers cost little, and not for
// long.
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
  int half_open =
      64;  // connections whose handshake is under way; for one more a silent or slow one is closed, else the new one
  Seconds handshake{5};  // that one may take

  // For so many ranks, which may all come at once, over two connections each.
  static AcceptorLimits of(int ranks) { return {.half_open = std::max(64, 2 * ranks)}; }
};

class Acceptor : private Ready {
 public:
  // On the reactor's thread, with a socket whose handshake is done and who said so; must not block.
  using LetIn = std::function<void(Descriptor socket, std::uint32_t who)>;

  Acceptor(Reactor& reactor, Address address, const Token& token, std::string purpose, LetIn let_in,
           AcceptorLimits limits = {});
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  const Address& address() const { return address_; }  // with the port that it got
  std::int64_t turned_away() const { return turned_away_.load(std::memory_order_relaxed); }  // the first one is logged

 private:
  struct Guest;

  void ready(std::uint32_t events) noexcept override;
  void look_at_the_clock();
  void accept_all();
  void turn_away(Guest& guest, const std::string& why);
  void count_away(const std::string& why);
  void pause();

  Reactor& reactor_;
  Address address_;
  Token token_;
  std::string purpose_;
  LetIn let_in_;
  AcceptorLimits limits_;
  Descriptor listener_;
  Reactor::Watch watch_;
  struct Clock;
  std::unique_ptr<Clock> clock_;
  std::list<std::unique_ptr<Guest>> guests_;  // oldest first; on the reactor's thread alone
  bool paused_ = false, said_full_ = false;
  std::atomic<std::int64_t> turned_away_{0};
};

}  // namespace karez::comm
