// The acceptor: each pending connection does one handshake, and a timer rejects those that take too long.
#include "karez/comm/rendezvous/acceptor.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "karez/base/error.h"
#include "karez/base/log.h"

namespace karez::comm {
namespace {
using Clock = std::chrono::steady_clock;
constexpr long tick_nanoseconds = 100'000'000;
}  // namespace

// A connection whose handshake has not finished.
struct Acceptor::PendingConnection : EventHandler {
  PendingConnection(Acceptor& acceptor, Descriptor socket)
      : acceptor(acceptor),
        socket(std::move(socket)),
        handshake(Handshake::responder(acceptor.token_, acceptor.purpose_)) {}
  ~PendingConnection() { acceptor.reactor_.remove(registration); }

  void on_events(std::uint32_t) noexcept override {
    std::string error_text;
    try {
      if (!step()) return;
    } catch (const std::exception& error) { error_text = error.what(); }
    if (!error_text.empty()) return acceptor.reject(*this, error_text);
    acceptor.reactor_.remove(registration);
    Descriptor accepted = std::move(socket);
    const std::uint32_t number = handshake.initiator_number();
    Acceptor& owner = acceptor;
    owner.pending_.remove_if([this](const auto& pending) { return pending.get() == this; });  // destroys *this
    try {
      owner.on_accept_(std::move(accepted), number);
    } catch (const std::exception& error) {
      note(LogLevel::warning, "cannot serve an accepted connection: ", error.what());
    }
  }

  // Continues the handshake. Returns true when it is done.
  bool step() {
    std::byte bytes[Handshake::max_bytes];
    while (!handshake.done()) {
      auto n = recv(socket.get(), bytes, handshake.expected_bytes(), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return false;
      require(ErrorKind::peer, n > 0,
              handshake.hello_received()
                  ? "it closed the connection after this world's answer: its token differs, or it ended"
                  : "it closed the connection");
      handshake.take({bytes, static_cast<std::size_t>(n)});
      std::vector<std::byte> out = handshake.to_send();
      // A new socket's buffer has space for 64 bytes.
      auto sent = out.empty() ? 0 : send(socket.get(), out.data(), out.size(), MSG_NOSIGNAL);
      require(ErrorKind::peer, sent == static_cast<ssize_t>(out.size()), "its socket accepts no data");
    }
    return true;
  }

  Acceptor& acceptor;
  Descriptor socket;
  Handshake handshake;
  Reactor::Registration registration;
  Clock::time_point accepted_at = Clock::now();
};

// A timer that ticks while there are pending connections.
struct Acceptor::HandshakeTimer : EventHandler {
  explicit HandshakeTimer(Acceptor& acceptor)
      : acceptor(acceptor),
        timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
    require(ErrorKind::device, static_cast<bool>(timer), "cannot create a timer: ", std::strerror(errno));
    acceptor.reactor_.watch(timer.get(), EPOLLIN, *this, registration);
  }
  ~HandshakeTimer() { acceptor.reactor_.remove(registration); }
  void on_events(std::uint32_t) noexcept override {
    std::uint64_t ticks = 0;
    if (::read(timer.get(), &ticks, sizeof ticks) > 0) acceptor.check_timeouts();
  }
  void set_ticking(bool on) {
    itimerspec interval{};
    if (on) interval.it_interval.tv_nsec = interval.it_value.tv_nsec = tick_nanoseconds;
    timerfd_settime(timer.get(), 0, &interval, nullptr);
  }

  Acceptor& acceptor;
  Descriptor timer;
  Reactor::Registration registration;
};

Acceptor::Acceptor(Reactor& reactor, Address address, const Token& token, std::string purpose, AcceptHandler on_accept,
                   AcceptorLimits limits)
    : reactor_(reactor),
      address_(std::move(address)),
      token_(token),
      purpose_(std::move(purpose)),
      on_accept_(std::move(on_accept)),
      limits_(limits),
      listener_(listen_at(address_, 1024)),
      timer_(std::make_unique<HandshakeTimer>(*this)) {
  reactor_.watch(listener_.get(), EPOLLIN, *this, registration_);
}

Acceptor::~Acceptor() {
  reactor_.with_dispatch_paused([this] {
    reactor_.remove(registration_);
    timer_.reset();
    pending_.clear();
  });
}

void Acceptor::on_events(std::uint32_t) noexcept { accept_all(); }

void Acceptor::accept_all() {
  for (int i = 0; i < limits_.half_open; ++i) {  // further connections are accepted after other events
    Descriptor socket = accept_at(listener_.get());
    if (!socket) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) pause();
      return;
    }
    if (address_.is_name() && !is_of_this_user(socket.get())) {
      count_rejected("it belongs to another user");
      continue;
    }
    // At the limit, a silent or slow connection is closed. If there is none, the new one is closed; its rank dials
    // again.
    if (static_cast<int>(pending_.size()) >= limits_.half_open) {
      const auto closable = std::find_if(pending_.begin(), pending_.end(), [&](const auto& pending) {
        return !pending->handshake.hello_received() || Clock::now() - pending->accepted_at > limits_.handshake / 5;
      });
      const std::string reason = cat("there are ", limits_.half_open, " other pending connections");
      if (closable == pending_.end()) {
        count_rejected(reason);
        continue;
      }
      reject(**closable, reason);
    }
    if (pending_.empty()) timer_->set_ticking(true);
    try {
      PendingConnection& pending =
          *pending_.emplace_back(std::make_unique<PendingConnection>(*this, std::move(socket)));
      reactor_.watch(pending.socket.get(), EPOLLIN | EPOLLET, pending, pending.registration);
    } catch (const std::exception& error) {
      note(LogLevel::warning, "cannot serve a connection: ", error.what());
      if (!pending_.empty() && pending_.back()->registration.id == 0) pending_.pop_back();
    }
  }
}

// Stops accepting until the next tick of the timer. New connections wait in the kernel's queue; they would keep the
// listener readable, so the reactor does not watch it.
void Acceptor::pause() {
  if (!std::exchange(exhaustion_logged_, true))
    note(LogLevel::warning, "connections to ", print(address_), " wait: ", std::strerror(errno),
         "; this is logged once");
  paused_ = true;
  reactor_.change(registration_, 0);
  timer_->set_ticking(true);
}

void Acceptor::check_timeouts() {
  if (std::exchange(paused_, false)) reactor_.change(registration_, EPOLLIN);
  auto oldest_allowed = Clock::now() - std::chrono::duration_cast<Clock::duration>(limits_.handshake);
  while (!pending_.empty() && pending_.front()->accepted_at < oldest_allowed)
    reject(*pending_.front(), "its handshake takes too long");
  if (pending_.empty() && !paused_) timer_->set_ticking(false);
}

void Acceptor::count_rejected(const std::string& reason) {
  if (rejected_.fetch_add(1, std::memory_order_relaxed) == 0)
    note(LogLevel::warning, "a connection to ", print(address_), " was rejected: ", reason,
         "; further rejections are not logged");
}

void Acceptor::reject(PendingConnection& pending, const std::string& reason) {
  count_rejected(reason);
  pending_.remove_if([&](const auto& other) { return other.get() == &pending; });
}

}  // namespace karez::comm
