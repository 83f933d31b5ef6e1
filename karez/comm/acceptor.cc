// Pending connections, oldest first: each does one handshake, and a timer rejects those that take too long.
#include "karez/comm/acceptor.h"

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
using Time = std::chrono::steady_clock;
constexpr long tick_nanoseconds = 100'000'000;
}  // namespace

// A connection whose handshake has not finished.
struct Acceptor::PendingConnection : EventHandler {
  PendingConnection(Acceptor& acceptor, Descriptor socket)
      : acceptor(acceptor),
        socket(std::move(socket)),
        handshake(Handshake::responder(acceptor.token_, acceptor.purpose_)) {}
  ~PendingConnection() { acceptor.reactor_.remove(watch); }

  void on_events(std::uint32_t) noexcept override {
    std::string why;
    try {
      if (!step()) return;
    } catch (const std::exception& error) { why = error.what(); }
    if (!why.empty()) return acceptor.reject(*this, why);
    acceptor.reactor_.remove(watch);
    Descriptor in = std::move(socket);
    std::uint32_t who = handshake.who();
    Acceptor& there = acceptor;
    there.pending_.remove_if([this](const auto& pending) { return pending.get() == this; });  // destroys *this
    try {
      there.on_accept_(std::move(in), who);
    } catch (const std::exception& error) {
      note(LogLevel::warning, "cannot serve an accepted connection: ", error.what());
    }
  }

  // True when the handshake is done.
  bool step() {
    std::byte bytes[Handshake::max_bytes];
    while (!handshake.done()) {
      auto n = recv(socket.get(), bytes, handshake.wanted(), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return false;
      require(ErrorKind::peer, n > 0,
              handshake.hello_received()
                  ? "it closed the connection at this world's answer: its token differs, or it ended"
                  : "it closed the connection");
      handshake.take({bytes, static_cast<std::size_t>(n)});
      std::vector<std::byte> out = handshake.to_send();
      auto sent = out.empty() ? 0
                              : send(socket.get(), out.data(), out.size(),
                                     MSG_NOSIGNAL);  // a new socket's buffer has space for 64 bytes
      require(ErrorKind::peer, sent == static_cast<ssize_t>(out.size()), "its socket accepts no data");
    }
    return true;
  }

  Acceptor& acceptor;
  Descriptor socket;
  Handshake handshake;
  Reactor::Registration watch;
  Time::time_point accepted_at = Time::now();
};

// Ticks while there are pending connections.
struct Acceptor::HandshakeTimer : EventHandler {
  explicit HandshakeTimer(Acceptor& acceptor)
      : acceptor(acceptor),
        timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
    require(ErrorKind::device, static_cast<bool>(timer), "no timer: ", std::strerror(errno));
    acceptor.reactor_.watch(timer.get(), EPOLLIN, *this, watch);
  }
  ~HandshakeTimer() { acceptor.reactor_.remove(watch); }
  void on_events(std::uint32_t) noexcept override {
    std::uint64_t ticks = 0;
    if (::read(timer.get(), &ticks, sizeof ticks) > 0) acceptor.check_timeouts();
  }
  void tick(bool on) {
    itimerspec when{};
    if (on) when.it_interval.tv_nsec = when.it_value.tv_nsec = tick_nanoseconds;
    timerfd_settime(timer.get(), 0, &when, nullptr);
  }

  Acceptor& acceptor;
  Descriptor timer;
  Reactor::Registration watch;
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
  for (int i = 0; i < limits_.half_open; ++i) {  // the rest later, after other events
    Descriptor socket = accept_at(listener_.get());
    if (!socket) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) pause();
      return;
    }
    if (address_.is_name() && !is_of_this_user(socket.get())) {
      count_rejected("it is another user's");
      continue;
    }
    // A silent connection is closed first, then a slow one; if there is none, the new one, whose rank dials again.
    if (static_cast<int>(pending_.size()) >= limits_.half_open) {
      const auto victim = std::find_if(pending_.begin(), pending_.end(), [&](const auto& pending) {
        return !pending->handshake.hello_received() || Time::now() - pending->accepted_at > limits_.handshake / 5;
      });
      const std::string why = cat("there are ", limits_.half_open, " other pending connections");
      if (victim == pending_.end()) {
        count_rejected(why);
        continue;
      }
      reject(**victim, why);
    }
    if (pending_.empty()) timer_->tick(true);
    try {
      PendingConnection& pending =
          *pending_.emplace_back(std::make_unique<PendingConnection>(*this, std::move(socket)));
      reactor_.watch(pending.socket.get(), EPOLLIN | EPOLLET, pending, pending.watch);
    } catch (const std::exception& error) {
      note(LogLevel::warning, "cannot serve a connection: ", error.what());
      if (!pending_.empty() && pending_.back()->watch.id == 0) pending_.pop_back();
    }
  }
}

// New connections wait in the kernel's queue. They would keep the listener readable, so the reactor does not watch it
// until the next tick of the timer.
void Acceptor::pause() {
  if (!std::exchange(exhaustion_logged_, true))
    note(LogLevel::warning, "connections to ", print(address_), " wait: ", std::strerror(errno),
         "; this is logged once");
  paused_ = true;
  reactor_.change(registration_, 0);
  timer_->tick(true);
}

void Acceptor::check_timeouts() {
  if (std::exchange(paused_, false)) reactor_.change(registration_, EPOLLIN);
  auto long_ago = Time::now() - std::chrono::duration_cast<Time::duration>(limits_.handshake);
  while (!pending_.empty() && pending_.front()->accepted_at < long_ago)
    reject(*pending_.front(), "its handshake takes too long");
  if (pending_.empty() && !paused_) timer_->tick(false);
}

void Acceptor::count_rejected(const std::string& why) {
  if (rejected_.fetch_add(1, std::memory_order_relaxed) == 0)
    note(LogLevel::warning, "a connection to ", print(address_), " was rejected: ", why,
         "; further rejections are not logged");
}

void Acceptor::reject(PendingConnection& pending, const std::string& why) {
  count_rejected(why);
  pending_.remove_if([&](const auto& other) { return other.get() == &pending; });
}

}  // namespace karez::comm
