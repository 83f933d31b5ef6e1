// Defines one end of a link between two processes of this host, for benchmarks of links.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "bench/namespace.h"
#include "karez/comm/transport/connection.h"
#include "karez/comm/transport/shared_wire.h"
#include "karez/comm/transport/socket_wire.h"
#include "karez/comm/transport/test_socket_pairs.h"

namespace karez::bench {

using Clock = std::chrono::steady_clock;
inline double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

enum class Transport { tcp, shm };

// One end of a link, which waits by polling, or by sleeping until its notifier wakes it.
class LinkPeer {
 public:
  LinkPeer(Reactor& reactor, Transport transport, Descriptor socket, int side, int depth = 8)
      : connection_(reactor, wire(transport, std::move(socket), side), "the other process"),
        endpoint_(side, 2, notifier_) {
    endpoint_.connect(1 - side, connection_.open(1, depth, notifier_));
    endpoint_.set_wake([this] {
      std::lock_guard lock(mutex_);
      notified_ = true;
      changed_.notify_one();
    });
  }
  Link& link() { return endpoint_.link(1 - endpoint_.member()); }
  void set_busy_poll(bool polling) { link().set_busy_poll(polling_ = polling); }
  template <class Condition> void wait(Condition condition) {
    while (!condition()) {
      if (link().failure() != nullptr) throw Error(*link().failure());
      if (polling_) {
        link().poll();
        continue;
      }
      std::unique_lock lock(mutex_);
      if (!notified_) changed_.wait(lock);
      notified_ = false;
      lock.unlock();
      notifier_.acknowledge();
    }
  }
  void wait_received(std::int64_t n) {
    wait([&] { return link().received() >= n; });
  }
  void wait_sent(std::int64_t n) {
    wait([&] { return link().sent() >= n; });
  }

 private:
  static std::unique_ptr<Wire> wire(Transport transport, Descriptor socket, int side) {
    if (transport == Transport::tcp) return std::make_unique<SocketWire>(std::move(socket));
    if (side == 0) return SharedWire::create(std::move(socket));
    return SharedWire::attach(std::move(socket), Seconds(5));
  }
  Connection connection_;
  Notifier notifier_;
  Endpoint endpoint_;
  bool polling_ = false, notified_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
};

// Runs `program` in a child process and returns the process id. Call it before any thread starts.
inline int spawn(const std::function<void()>& program) {
  std::fflush(nullptr);
  int pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    program();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "link: in the other process: %s\n", error.what());
    _exit(1);
  }
  _exit(0);
}

inline void reap(int pid) {
  int status = 0;
  waitpid(pid, &status, 0);
}

inline std::array<Descriptor, 2> sockets(Transport transport) {
  return transport == Transport::tcp ? tcp_pair() : socket_pair();
}

}  // namespace karez::bench
