// Guests in the order in which they came: each takes one handshake, and a timer shows out who is slow.
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

// Somebody whose handshake is under way.
struct Acceptor::Guest : Ready {
  Guest(Acceptor& door, Descriptor socket)
      : door(door),
        socket(std::move(socket)),
        handshake(Handshake::answers(door.token_, door.purpose_)) {}
  ~Guest() { door.reactor_.forget(watch); }

  void ready(std::uint32_t) noexcept override {
    std::string why;
    try {
      if (!step()) return;
    } catch (const std::exception& error) { why = error.what(); }
    if (!why.empty()) return door.turn_away(*this, why);
    door.reactor_.forget(watch);
    Descriptor in = std::move(socket);
    std::uint32_t who = handshake.who();
    Acceptor& there = door;
    there.guests_.remove_if([this](const auto& guest) { return guest.get() == this; });  // this is no more
    try {
      there.let_in_(std::move(in), who);
    } catch (const std::exception& error) {
      note(LogLevel::warning, "a peer that was let in could not be served: ", error.what());
    }
  }

  // True when the handshake is done.
  bool step() {
    std::byte bytes[Handshake::most_bytes];
    while (!handshake.done()) {
      auto n = recv(socket.get(), bytes, handshake.wanted(), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return false;
      require(
          ErrorKind::peer, n > 0,
          handshake.greeted() ? "it left at this world's answer: it has another token, or it ended" : "it went away");
      handshake.take({bytes, static_cast<std::size_t>(n)});
      std::vector<std::byte> out = handshake.to_send();
      auto sent = out.empty() ? 0
                              : send(socket.get(), out.data(), out.size(),
                                     MSG_NOSIGNAL);  // a fresh socket has room for 64 bytes
      require(ErrorKind::peer, sent == static_cast<ssize_t>(out.size()), "it takes nothing");
    }
    return true;
  }

  Acceptor& door;
  Descriptor socket;
  Handshake handshake;
  Reactor::Watch watch;
  Time::time_point came = Time::now();
};

// Ticks while there are guests.
struct Acceptor::Clock : Ready {
  explicit Clock(Acceptor& door) : door(door), timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
    require(ErrorKind::device, static_cast<bool>(timer), "no timer: ", std::strerror(errno));
    door.reactor_.watch(timer.get(), EPOLLIN, *this, watch);
  }
  ~Clock() { door.reactor_.forget(watch); }
  void ready(std::uint32_t) noexcept override {
    std::uint64_t ticks = 0;
    if (::read(timer.get(), &ticks, sizeof ticks) > 0) door.look_at_the_clock();
  }
  void tick(bool on) {
    itimerspec when{};
    if (on) when.it_interval.tv_nsec = when.it_value.tv_nsec = tick_nanoseconds;
    timerfd_settime(timer.get(), 0, &when, nullptr);
  }

  Acceptor& door;
  Descriptor timer;
  Reactor::Watch watch;
};

Acceptor::Acceptor(Reactor& reactor, Address address, const Token& token, std::string purpose, LetIn let_in,
                   AcceptorLimits limits)
    : reactor_(reactor),
      address_(std::move(address)),
      token_(token),
      purpose_(std::move(purpose)),
      let_in_(std::move(let_in)),
      limits_(limits),
      listener_(listen_at(address_, 1024)),
      clock_(std::make_unique<Clock>(*this)) {
  reactor_.watch(listener_.get(), EPOLLIN, *this, watch_);
}

Acceptor::~Acceptor() {
  reactor_.while_quiet([this] {
    reactor_.forget(watch_);
    clock_.reset();
    guests_.clear();
  });
}

void Acceptor::ready(std::uint32_t) noexcept { accept_all(); }

void Acceptor::accept_all() {
  for (int i = 0; i < limits_.half_open; ++i) {  // the rest later: others come between
    Descriptor socket = accept_at(listener_.get());
    if (!socket) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) pause();
      return;
    }
    if (address_.is_name() && !is_of_this_user(socket.get())) {
      count_away("it is another user's");
      continue;
    }
    // A silent connection is closed first, then a slow one; otherwise the new one, whose rank dials again.
    if (static_cast<int>(guests_.size()) >= limits_.half_open) {
      const auto victim = std::find_if(guests_.begin(), guests_.end(), [&](const auto& guest) {
        return !guest->handshake.greeted() || Time::now() - guest->came > limits_.handshake / 5;
      });
      const std::string why = cat("there are ", limits_.half_open, " others");
      if (victim == guests_.end()) {
        count_away(why);
        continue;
      }
      turn_away(**victim, why);
    }
    if (guests_.empty()) clock_->tick(true);
    try {
      Guest& guest = *guests_.emplace_back(std::make_unique<Guest>(*this, std::move(socket)));
      reactor_.watch(guest.socket.get(), EPOLLIN | EPOLLET, guest, guest.watch);
    } catch (const std::exception& error) {
      note(LogLevel::warning, "cannot serve a connection: ", error.what());
      if (!guests_.empty() && guests_.back()->watch.id == 0) guests_.pop_back();
    }
  }
}

// New connections wait in the kernel's queue, which keeps the listener ready: it is watched again from the next tick of
// the clock on.
void Acceptor::pause() {
  if (!std::exchange(said_full_, true))
    note(LogLevel::warning, "connections to ", print(address_), " wait: ", std::strerror(errno), "; this is said once");
  paused_ = true;
  reactor_.change(watch_, 0);
  clock_->tick(true);
}

void Acceptor::look_at_the_clock() {
  if (std::exchange(paused_, false)) reactor_.change(watch_, EPOLLIN);
  auto long_ago = Time::now() - std::chrono::duration_cast<Time::duration>(limits_.handshake);
  while (!guests_.empty() && guests_.front()->came < long_ago)
    turn_away(*guests_.front(), "its handshake takes too long");
  if (guests_.empty() && !paused_) clock_->tick(false);
}

void Acceptor::count_away(const std::string& why) {
  if (turned_away_.fetch_add(1, std::memory_order_relaxed) == 0)
    note(LogLevel::warning, "a connection to ", print(address_), " was turned away: ", why,
         "; further ones are not told");
}

void Acceptor::turn_away(Guest& guest, const std::string& why) {
  count_away(why);
  guests_.remove_if([&](const auto& other) { return other.get() == &guest; });
}

}  // namespace karez::comm
