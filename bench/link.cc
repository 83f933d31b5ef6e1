// What do links between processes cost? Bandwidth relative to a raw socket, latency of 64 bytes, 1,000 connections, and
// a peer that receives nothing.
//
//   bench_link [--json FILE]
//
// Two processes of this host. Bandwidth: messages of 4 MB in one direction over loopback TCP, alternating with a raw
// socket; also shared memory. Latency: half of a round trip of 64 bytes; both ends polling, then sleeping (woken by the
// reactor). Targets: 0.9 of the raw socket's bandwidth, 25 us over TCP and 2 us in shared memory with both ends
// polling, and with a peer that is stopped in the middle of a long message at most 1.2 times the time without. The
// sides of a comparison alternate, and the best run of each counts, because other work on the machine can only slow a
// run. A latency is the median of its rounds.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bench/report.h"
#include "karez/comm/connection.h"
#include "karez/comm/shared_wire.h"
#include "karez/comm/socket_wire.h"

namespace karez::bench {
namespace {
using namespace comm;
using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

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
  template <class Holds> void wait(Holds holds) {
    while (!holds()) {
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

// Runs `there` in a child process; call before any thread starts.
int spawn(const std::function<void()>& there) {
  std::fflush(nullptr);
  int pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    there();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "link: in the other process: %s\n", error.what());
    _exit(1);
  }
  _exit(0);
}

void reap(int pid) {
  int status = 0;
  waitpid(pid, &status, 0);
}

std::array<Descriptor, 2> sockets(Transport transport) {
  return transport == Transport::tcp ? tcp_pair() : socket_pair();
}

// us for 64 bytes in one direction: half of the median round trip.
double latency(Transport transport, bool polling, int rounds) {
  auto pair = sockets(transport);
  auto play = [&](LinkPeer& end, bool begins, std::vector<double>* times) {
    std::byte from[64] = {}, to[64];
    end.set_busy_poll(polling);
    Link& link = end.link();
    link.post_receive(to, 64);
    for (int i = 0; i < rounds; ++i) {
      auto begin = Clock::now();
      if (begins) link.send(from, 64);
      end.wait_received(i + 1);
      if (i + 1 < rounds) link.post_receive(to, 64);  // before the reply, so that the next message has its credit
      if (!begins) link.send(from, 64);
      if (times != nullptr) times->push_back(since(begin) * 1e6 / 2);
    }
    end.wait_sent(rounds);
    end.set_busy_poll(false);
  };
  int pid = spawn([&] {
    pair[0].close();
    Reactor reactor;
    LinkPeer end(reactor, transport, std::move(pair[1]), 1);
    play(end, false, nullptr);
    try {
      end.wait([] { return false; });  // until the other end is gone
    } catch (const Error&) {}
  });
  pair[1].close();
  std::vector<double> times;
  {
    Reactor reactor;
    LinkPeer end(reactor, transport, std::move(pair[0]), 0);
    play(end, true, &times);
  }
  reap(pid);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double raw_latency(int rounds) {
  auto pair = tcp_pair();
  auto play = [&](int socket, bool begins, std::vector<double>* times) {
    std::byte bytes[64] = {};
    for (int i = 0; i < rounds; ++i) {
      auto begin = Clock::now();
      if (begins) send_all(socket, bytes, Seconds(5));
      receive_all(socket, bytes, Seconds(5));
      if (!begins) send_all(socket, bytes, Seconds(5));
      if (times != nullptr) times->push_back(since(begin) * 1e6 / 2);
    }
  };
  int pid = spawn([&] { play(pair[1].get(), false, nullptr); });
  std::vector<double> times;
  play(pair[0].get(), true, &times);
  reap(pid);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

constexpr std::int64_t message = 4 << 20;

// GB/s in one direction, until all messages have arrived.
double bandwidth(Transport transport, int messages) {
  auto pair = sockets(transport);
  int pid = spawn([&] {
    pair[0].close();
    Reactor reactor;
    LinkPeer end(reactor, transport, std::move(pair[1]), 1, 4);
    std::vector<std::byte> memory(4 * message);
    for (int i = 0; i < messages + 4; ++i) {
      if (i >= 4) end.wait_received(i - 3);
      if (i < messages) end.link().post_receive(memory.data() + i % 4 * message, message);
    }
    std::byte done{};
    end.link().send(&done, 1);
    end.wait_sent(1);
    try {
      end.wait([] { return false; });
    } catch (const Error&) {}
  });
  pair[1].close();
  double seconds = 0;
  {
    Reactor reactor;
    LinkPeer end(reactor, transport, std::move(pair[0]), 0, 4);
    std::vector<std::byte> memory(4 * message, std::byte{1});
    std::byte done{};
    end.link().post_receive(&done, 1);
    auto begin = Clock::now();
    for (int i = 0; i < messages; ++i) {
      if (i >= 4) end.wait_sent(i - 3);
      end.link().send(memory.data() + i % 4 * message, message);
    }
    end.wait_received(1);
    seconds = since(begin);
  }
  reap(pid);
  return static_cast<double>(messages) * message / seconds / 1e9;
}

double raw_bandwidth(int messages) {
  auto pair = tcp_pair();
  int pid = spawn([&] {
    std::vector<std::byte> memory(4 * message);
    for (int i = 0; i < messages; ++i)
      receive_all(pair[1].get(), {memory.data() + i % 4 * message, message}, Seconds(20));
    std::byte done{};
    send_all(pair[1].get(), {&done, 1}, Seconds(5));
  });
  std::vector<std::byte> memory(4 * message, std::byte{1});
  std::byte done{};
  auto begin = Clock::now();
  for (int i = 0; i < messages; ++i) send_all(pair[0].get(), {memory.data() + i % 4 * message, message}, Seconds(20));
  receive_all(pair[0].get(), {&done, 1}, Seconds(20));
  double seconds = since(begin);
  reap(pid);
  return static_cast<double>(messages) * message / seconds / 1e9;
}

double rss_mb() {
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

// us for a message of 64 bytes to and from each of `connections` peers, and MB of this process per connection.
std::pair<double, double> many_connections(int connections) {
  std::vector<std::array<Descriptor, 2>> pairs;
  for (int i = 0; i < connections; ++i) pairs.push_back(tcp_pair());
  constexpr int rounds = 20;
  auto run = [&](int side, double* us) {
    Reactor reactor;
    std::vector<std::unique_ptr<LinkPeer>> ends;
    std::vector<std::byte> from(64), to(64 * static_cast<std::size_t>(connections));
    for (auto& pair : pairs)
      ends.push_back(
          std::make_unique<LinkPeer>(reactor, Transport::tcp, std::move(pair[static_cast<std::size_t>(side)]), side));
    auto begin = Clock::now();
    for (int r = 0; r < rounds; ++r) {
      for (std::size_t i = 0; i < ends.size(); ++i) ends[i]->link().post_receive(to.data() + 64 * i, 64);
      for (auto& end : ends) end->link().send(from.data(), 64);
      for (auto& end : ends) end->wait_received(r + 1);
    }
    for (auto& end : ends) end->wait_sent(rounds);
    if (us != nullptr) {
      *us = since(begin) * 1e6 / rounds / connections;
      return;
    }
    try {
      ends[0]->wait([] { return false; });
    } catch (const Error&) {}
  };
  int pid = spawn([&] {
    for (auto& pair : pairs) pair[0].close();
    run(1, nullptr);
  });
  for (auto& pair : pairs) pair[1].close();
  double us = 0, before = rss_mb();
  run(0, &us);
  double grown = (rss_mb() - before) / connections;
  reap(pid);
  return {us, grown};
}

// Seconds of traffic with one peer; with `stopped`, while a second peer is stopped in the middle of 64 MB.
double seconds_with_second_peer(bool stopped) {
  constexpr int messages = 300;
  constexpr std::int64_t size = 1 << 20;  // so that bytes dominate, and not wake-ups, which vary
  auto fast = tcp_pair(), slow = tcp_pair();
  auto serve = [](Descriptor socket, std::int64_t bytes, int count) {
    Reactor reactor;
    LinkPeer end(reactor, Transport::tcp, std::move(socket), 1, 4);
    std::vector<std::byte> memory(static_cast<std::size_t>(bytes));
    for (int i = 0; i < count; ++i) {
      end.link().post_receive(memory.data(), bytes);
      end.wait_received(i + 1);
    }
    std::byte done{};
    end.link().send(&done, 1);
    try {
      end.wait([] { return false; });
    } catch (const Error&) {}
  };
  auto close = [&] { fast[0].close(), slow[0].close(); };
  int one = spawn([&] { close(), slow[1].close(), serve(std::move(fast[1]), size, messages); });
  int two = spawn([&] { close(), fast[1].close(), serve(std::move(slow[1]), 64 << 20, 1); });
  fast[1].close();
  slow[1].close();
  double seconds = 0;
  {
    Reactor reactor;
    LinkPeer to_fast(reactor, Transport::tcp, std::move(fast[0]), 0, 4),
        to_slow(reactor, Transport::tcp, std::move(slow[0]), 0, 4);
    std::vector<std::byte> memory(64 << 20);
    if (stopped) {
      to_slow.link().send(memory.data(), 64 << 20);
      to_slow.wait([&] { return to_slow.link().bytes_sent() > 0 || to_slow.link().sent() > 0; });
      kill(two, SIGSTOP);
    }
    std::byte done{};
    to_fast.link().post_receive(&done, 1);
    auto begin = Clock::now();
    for (int i = 0; i < messages; ++i) {
      if (i >= 4) to_fast.wait_sent(i - 3);
      to_fast.link().send(memory.data(), size);
    }
    to_fast.wait_received(1);
    seconds = since(begin);
    kill(two, SIGKILL);
  }
  reap(one);
  reap(two);
  return seconds;
}

struct Row {
  std::string name, unit;
  double value, target;  // target 0: no target
  bool more_is_better = false;
  double ratio() const { return target == 0 ? 0 : more_is_better ? target / value : value / target; }
};

int run(const std::string& json) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  double raw = 0, tcp = 0, shared = 0, alone = 1e9, with = 1e9;
  for (int i = 0; i < 9; ++i) {
    raw = std::max(raw, raw_bandwidth(100));
    tcp = std::max(tcp, bandwidth(Transport::tcp, 100));
    shared = std::max(shared, bandwidth(Transport::shm, 100));
  }
  for (int i = 0; i < 9; ++i) {
    alone = std::min(alone, seconds_with_second_peer(false));
    with = std::min(with, seconds_with_second_peer(true));
  }
  auto typical = [](Transport transport, bool polling, int rounds) {
    return std::min({latency(transport, polling, rounds), latency(transport, polling, rounds),
                     latency(transport, polling, rounds)});
  };
  auto [hundred_us, hundred_mb] = many_connections(100);
  auto [thousand_us, thousand_mb] = many_connections(1000);
  std::vector<Row> rows = {
      {"raw socket", "GB/s", raw, 0, true},
      {"TCP", "GB/s", tcp, 0.9 * raw, true},
      {"shared memory", "GB/s", shared, 0, true},
      {"64 B one way, raw socket, sleeping", "us", raw_latency(5000), 0},
      {"64 B one way, TCP, polling", "us", typical(Transport::tcp, true, 5000), 25},
      {"64 B one way, TCP, sleeping", "us", typical(Transport::tcp, false, 3000), 0},
      {"64 B one way, shared memory, polling", "us", typical(Transport::shm, true, 20000), 2},
      {"64 B one way, shared memory, sleeping", "us", typical(Transport::shm, false, 3000), 0},
      {"a peer that receives nothing: time ratio", "", with / alone, 1.2},
      {"100 connections, a message each way", "us", hundred_us, 0},
      {"1000 connections, a message each way", "us", thousand_us, 2 * hundred_us},
      {"1000 connections, memory of each", "MB", thousand_mb, 0.1},
  };
  double worst = 0;
  std::printf("%-40s %10s %10s %7s\n", "links between two processes", "", "target", "ratio");
  for (const Row& row : rows) {
    std::printf("%-40s %10.3f ", cat(row.name, row.unit.empty() ? "" : ", ", row.unit).c_str(), row.value);
    if (row.target == 0) std::printf("%10s %7s\n", "-", "-");
    else std::printf("%10.3f %7.3f\n", row.target, row.ratio());
    worst = std::max(worst, row.ratio());
  }
  std::printf("link: worst ratio %.3f (target 1.000)\n", worst);
  std::string text = cat("{\"name\": \"link\", \"worst\": ", worst, ", \"target\": 1.0, \"rows\": [");
  for (const Row& row : rows)
    text += cat(&row == &rows[0] ? "" : ", ", "{\"name\": \"", row.name, "\", \"value\": ", row.value,
                ", \"target\": ", row.target, "}");
  write_json(json, text + "]}");
  return worst <= 1.0 ? 0 : 1;
}

}  // namespace
}  // namespace karez::bench

int main(int argc, char** argv) {
  using namespace karez;
  try {
    return bench::run(bench::json_option(argc, argv));
  } catch (const base::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return base::exit_code(error.kind);
  }
}
