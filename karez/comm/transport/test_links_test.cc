// Implements the transports for tests, child processes, random traffic and timeouts.
#include "karez/comm/transport/test_links.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

#include "karez/comm/transport/shared_wire.h"
#include "karez/comm/transport/socket_wire.h"
#include "karez/comm/transport/test_local_hub.h"
#include "karez/comm/transport/test_socket_pairs.h"
#include "karez/comm/transport/ucx_wire.h"

namespace karez::comm::test {
namespace {
class LocalLinkEnds : public LinkEnds {
 public:
  explicit LocalLinkEnds(int depth) : hub_(2, depth) {}
  Endpoint& end(int member) override { return hub_.endpoint(member); }

 private:
  TestHub hub_;
};

class LocalTransport : public Transport {
 public:
  std::unique_ptr<LinkEnds> open(int depth) override { return std::make_unique<LocalLinkEnds>(depth); }
};

class RemoteLinkEnds : public LinkEnds {
 public:
  RemoteLinkEnds(Endpoint& first, Endpoint& second) : ends_{&first, &second} {}
  Endpoint& end(int member) override { return *ends_[static_cast<std::size_t>(member)]; }

 private:
  std::array<Endpoint*, 2> ends_;
};

// A transport with both sides of its connection in this process.
class PairTransport : public Transport {
 public:
  PairTransport(const TransportKind& kind, std::array<Descriptor, 2> sockets)
      : first_(kind, std::move(sockets[0]), 0),
        second_(kind, std::move(sockets[1]), 1) {}
  std::unique_ptr<LinkEnds> open(int depth) override {
    ++channel_;
    return std::make_unique<RemoteLinkEnds>(first_.open(channel_, depth), second_.open(channel_, depth));
  }

 private:
  ConnectionEnd first_, second_;
  std::uint64_t channel_ = 0;
};

template <int index> std::unique_ptr<Transport> make_pair() {
  return std::make_unique<PairTransport>(transports[index], transports[index].sockets());
}

std::unique_ptr<Wire> socket_wire(Descriptor socket, int) { return std::make_unique<SocketWire>(std::move(socket)); }
std::unique_ptr<Wire> shared_wire(Descriptor socket, int side) {
  if (side == 0) return SharedWire::create(std::move(socket));
  return SharedWire::attach(std::move(socket), Seconds(5));
}
std::unique_ptr<Wire> ucx_over_tcp(Descriptor socket, int) { return make_ucx_wire(std::move(socket), false, "tcp"); }
std::unique_ptr<Wire> ucx_over_shm(Descriptor socket, int) { return make_ucx_wire(std::move(socket), true, "shm"); }
}  // namespace

const std::array<TransportKind, 5> transports = {{
    {"local", [] { return std::unique_ptr<Transport>(new LocalTransport); }},
    {"tcp", make_pair<1>, tcp_pair, socket_wire},
    {"shm", make_pair<2>, socket_pair, shared_wire},
    {"ucx_tcp", make_pair<3>, tcp_pair, ucx_over_tcp, has_ucx},
    {"ucx_shm", make_pair<4>, socket_pair, ucx_over_shm, has_ucx},
}};

ConnectionEnd::ConnectionEnd(const TransportKind& transport, Descriptor socket, int side) : side_(side) {
  connection_ = std::make_unique<Connection>(reactor_, transport.wire(std::move(socket), side),
                                             cat("rank ", 1 - side, " (test, process 1)"));
}

Endpoint& ConnectionEnd::open(std::uint64_t channel, int depth) {
  End& end = *ends_.emplace_back(std::make_unique<End>(side_));
  end.endpoint.connect(1 - side_, connection_->open(channel, depth, end.notifier));
  return end.endpoint;
}

ChildProcess::ChildProcess(const std::function<int()>& body) {
  std::fflush(nullptr);
  pid_ = fork();
  require(ErrorKind::device, pid_ >= 0, "cannot start a process");
  if (pid_ > 0) return;
  int code = 99;
  try {
    code = body();
  } catch (const std::exception& error) { std::fprintf(stderr, "in a child: %s\n", error.what()); }
  _exit(code);
}

ChildProcess::~ChildProcess() {
  if (pid_ < 0) return;
  kill();
  wait();
}

void ChildProcess::kill() { ::kill(pid_, SIGKILL); }

int ChildProcess::wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::int64_t Traffic::size(int link, int direction, std::int64_t message) const {
  std::mt19937_64 random(seed + 1000003ull * static_cast<std::uint64_t>(link * 2 + direction) +
                         static_cast<std::uint64_t>(message));
  random.discard(3);
  return random() % 8 == 0 ? static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(max_bytes))
                           : static_cast<std::int64_t>(random() % 64);
}

std::byte Traffic::value(int link, int direction, std::int64_t message, std::int64_t i) const {
  return static_cast<std::byte>(seed + 31u * static_cast<std::uint64_t>(link) +
                                17u * static_cast<std::uint64_t>(direction) + static_cast<std::uint64_t>(message) * 7u +
                                static_cast<std::uint64_t>(i));
}

std::string Traffic::serve(const std::vector<Endpoint*>& ends, int member, bool polling) const {
  struct State {
    std::int64_t send_count = 0, receive_count = 0, checked_count = 0;
    std::vector<std::vector<std::byte>> sends, receives;
  };
  std::vector<State> states(ends.size());
  std::mt19937_64 random(seed * 2 + static_cast<std::uint64_t>(member));
  for (std::size_t l = 0; l < ends.size(); ++l) {
    auto depth = static_cast<std::size_t>(ends[l]->link(1 - member).depth());
    states[l].sends.resize(depth);
    states[l].receives.resize(depth);
    if (polling) ends[l]->set_busy_poll(true);
  }
  TestTimeout timeout(30);
  for (bool done = false; !done;) {
    done = true;
    if (timeout.expired()) return "no progress within the timeout";
    for (std::size_t l = 0; l < ends.size(); ++l) {
      State& s = states[l];
      Link& link = ends[l]->link(1 - member);
      int index = static_cast<int>(l);
      if (polling) link.poll();
      for (; s.checked_count < link.received(); ++s.checked_count) {
        const auto& message = s.receives[static_cast<std::size_t>(s.checked_count % link.depth())];
        for (std::size_t i = 0; i < message.size(); ++i)
          if (message[i] != value(index, 1 - member, s.checked_count, static_cast<std::int64_t>(i)))
            return cat("link ", l, ", message ", s.checked_count, ": wrong byte at offset ", i);
      }
      if (s.receive_count < messages && s.receive_count - s.checked_count < link.depth() && random() % 3 != 0) {
        auto& into = s.receives[static_cast<std::size_t>(s.receive_count % link.depth())];
        into.assign(static_cast<std::size_t>(size(index, 1 - member, s.receive_count)), std::byte{0});
        link.post_receive(into.data(), static_cast<std::int64_t>(into.size()));
        ++s.receive_count;
      }
      if (s.send_count < messages && s.send_count - link.sent() < link.depth() && random() % 3 != 0) {
        auto& from = s.sends[static_cast<std::size_t>(s.send_count % link.depth())];
        from.resize(static_cast<std::size_t>(size(index, member, s.send_count)));
        for (std::size_t i = 0; i < from.size(); ++i)
          from[i] = value(index, member, s.send_count, static_cast<std::int64_t>(i));
        link.send(from.data(), static_cast<std::int64_t>(from.size()));
        ++s.send_count;
      }
      done = done && s.checked_count == messages && link.sent() == messages;
    }
    if (!done && !polling && random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 50));
  }
  for (std::size_t l = 0; l < ends.size(); ++l) {
    std::int64_t sum = 0;
    for (std::int64_t k = 0; k < messages; ++k) sum += size(static_cast<int>(l), member, k);
    if (ends[l]->bytes_sent() != sum)
      return cat("link ", l, " counts ", ends[l]->bytes_sent(), " bytes sent, expected ", sum);
    if (polling) ends[l]->set_busy_poll(false);
  }
  return "";
}

bool TestTimeout::expired() {
  auto now = std::chrono::steady_clock::now();
  seconds_left_ -= std::min(std::chrono::duration<double>(now - last_).count(), 0.1);
  last_ = now;
  return seconds_left_ < 0;
}

bool await(const std::function<bool()>& condition, double seconds) {
  TestTimeout timeout(seconds);
  while (!condition()) {
    if (timeout.expired()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

}  // namespace karez::comm::test
