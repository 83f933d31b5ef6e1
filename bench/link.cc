// Measures the cost of links between processes: bandwidth relative to a raw socket, latency of 64 bytes, 1,000
// connections, and a peer that receives nothing.
//
//   bench_link [--json FILE]
//
// Both processes run on this host. Bandwidth is measured with messages of 4 MB in one direction over loopback TCP, a
// raw socket and shared memory. Latency is half of a round trip of 64 bytes, the median of its rounds; both ends poll,
// then sleep until the reactor wakes them. Targets: 0.9 of the raw socket's bandwidth; 25 us over TCP and 2 us in
// shared memory when both ends poll; at most 1.2 times the time if a second peer is stopped in the middle of a long
// message; and with 1,000 connections at most twice the time per message that 100 connections need, and 0.1 MB per
// connection. The sides of a comparison alternate, and the fastest run of each counts, because other work on the
// machine can only slow a run.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "bench/link_peer.h"
#include "bench/report.h"

namespace karez::bench {
namespace {

// Returns the microseconds that 64 bytes take in one direction: half of the median round trip.
double one_way_us(Transport transport, bool polling, int rounds) {
  auto pair = sockets(transport);
  auto exchange = [&](LinkPeer& end, bool begins, std::vector<double>* times) {
    std::byte outgoing[64] = {}, incoming[64];
    end.set_busy_poll(polling);
    Link& link = end.link();
    link.post_receive(incoming, 64);
    for (int i = 0; i < rounds; ++i) {
      auto begin = Clock::now();
      if (begins) link.send(outgoing, 64);
      end.wait_received(i + 1);
      if (i + 1 < rounds) link.post_receive(incoming, 64);  // before the reply, so that the next message has its credit
      if (!begins) link.send(outgoing, 64);
      if (times != nullptr) times->push_back(since(begin) * 1e6 / 2);
    }
    end.wait_sent(rounds);
    end.set_busy_poll(false);
  };
  int pid = spawn([&] {
    pair[0].close();
    Reactor reactor;
    LinkPeer end(reactor, transport, std::move(pair[1]), 1);
    exchange(end, false, nullptr);
    try {
      end.wait([] { return false; });  // until the other process disconnects
    } catch (const Error&) {}
  });
  pair[1].close();
  std::vector<double> times;
  {
    Reactor reactor;
    LinkPeer end(reactor, transport, std::move(pair[0]), 0);
    exchange(end, true, &times);
  }
  reap(pid);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double raw_one_way_us(int rounds) {
  auto pair = tcp_pair();
  auto exchange = [&](int socket, bool begins, std::vector<double>* times) {
    std::byte bytes[64] = {};
    for (int i = 0; i < rounds; ++i) {
      auto begin = Clock::now();
      if (begins) send_all(socket, bytes, Seconds(5));
      receive_all(socket, bytes, Seconds(5));
      if (!begins) send_all(socket, bytes, Seconds(5));
      if (times != nullptr) times->push_back(since(begin) * 1e6 / 2);
    }
  };
  int pid = spawn([&] { exchange(pair[1].get(), false, nullptr); });
  std::vector<double> times;
  exchange(pair[0].get(), true, &times);
  reap(pid);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

constexpr std::int64_t message = 4 << 20;

// Returns GB/s in one direction, measured until all messages have arrived.
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
    std::byte reply{};
    end.link().send(&reply, 1);
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
    std::byte reply{};
    end.link().post_receive(&reply, 1);
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
    std::byte reply{};
    send_all(pair[1].get(), {&reply, 1}, Seconds(5));
  });
  std::vector<std::byte> memory(4 * message, std::byte{1});
  std::byte reply{};
  auto begin = Clock::now();
  for (int i = 0; i < messages; ++i) send_all(pair[0].get(), {memory.data() + i % 4 * message, message}, Seconds(20));
  receive_all(pair[0].get(), {&reply, 1}, Seconds(20));
  double seconds = since(begin);
  reap(pid);
  return static_cast<double>(messages) * message / seconds / 1e9;
}

double rss_mb() {
  std::ifstream file("/proc/self/statm");
  double total_pages = 0, resident = 0;
  file >> total_pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

// Exchanges messages of 64 bytes with `connections` peers. Returns the microseconds per peer that a message in each
// direction takes, and the MB of memory that this process needs per connection.
std::pair<double, double> many_connections(int connections) {
  std::vector<std::array<Descriptor, 2>> pairs;
  for (int i = 0; i < connections; ++i) pairs.push_back(tcp_pair());
  constexpr int rounds = 20;
  auto run = [&](int side, double* us) {
    Reactor reactor;
    std::vector<std::unique_ptr<LinkPeer>> ends;
    std::vector<std::byte> outgoing(64), incoming(64 * static_cast<std::size_t>(connections));
    for (auto& pair : pairs)
      ends.push_back(
          std::make_unique<LinkPeer>(reactor, Transport::tcp, std::move(pair[static_cast<std::size_t>(side)]), side));
    auto begin = Clock::now();
    for (int r = 0; r < rounds; ++r) {
      for (std::size_t i = 0; i < ends.size(); ++i) ends[i]->link().post_receive(incoming.data() + 64 * i, 64);
      for (auto& end : ends) end->link().send(outgoing.data(), 64);
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
  double us = 0, initial_mb = rss_mb();
  run(0, &us);
  double growth = (rss_mb() - initial_mb) / connections;
  reap(pid);
  return {us, growth};
}

// Returns the seconds that 300 messages of 1 MiB to one peer take. If `stopped`, a second peer is stopped while it
// receives a message of 64 MiB.
double seconds_with_second_peer(bool stopped) {
  constexpr int messages = 300;
  constexpr std::int64_t size = 1 << 20;  // large, because the time of wake-ups varies
  auto fast_sockets = tcp_pair(), slow_sockets = tcp_pair();
  auto serve = [](Descriptor socket, std::int64_t bytes, int count) {
    Reactor reactor;
    LinkPeer end(reactor, Transport::tcp, std::move(socket), 1, 4);
    std::vector<std::byte> memory(static_cast<std::size_t>(bytes));
    for (int i = 0; i < count; ++i) {
      end.link().post_receive(memory.data(), bytes);
      end.wait_received(i + 1);
    }
    std::byte reply{};
    end.link().send(&reply, 1);
    try {
      end.wait([] { return false; });
    } catch (const Error&) {}
  };
  auto close = [&] { fast_sockets[0].close(), slow_sockets[0].close(); };
  int fast_process =
      spawn([&] { close(), slow_sockets[1].close(), serve(std::move(fast_sockets[1]), size, messages); });
  int slow_process = spawn([&] { close(), fast_sockets[1].close(), serve(std::move(slow_sockets[1]), 64 << 20, 1); });
  fast_sockets[1].close();
  slow_sockets[1].close();
  double seconds = 0;
  {
    Reactor reactor;
    LinkPeer to_fast(reactor, Transport::tcp, std::move(fast_sockets[0]), 0, 4),
        to_slow(reactor, Transport::tcp, std::move(slow_sockets[0]), 0, 4);
    std::vector<std::byte> memory(64 << 20);
    if (stopped) {
      to_slow.link().send(memory.data(), 64 << 20);
      to_slow.wait([&] { return to_slow.link().bytes_sent() > 0 || to_slow.link().sent() > 0; });
      kill(slow_process, SIGSTOP);
    }
    std::byte reply{};
    to_fast.link().post_receive(&reply, 1);
    auto begin = Clock::now();
    for (int i = 0; i < messages; ++i) {
      if (i >= 4) to_fast.wait_sent(i - 3);
      to_fast.link().send(memory.data(), size);
    }
    to_fast.wait_received(1);
    seconds = since(begin);
    kill(slow_process, SIGKILL);
  }
  reap(fast_process);
  reap(slow_process);
  return seconds;
}

struct Row {
  std::string name, unit;
  double value, target;  // target 0: no target
  bool more_is_better = false;
  double ratio() const { return target == 0 ? 0 : more_is_better ? target / value : value / target; }
};

int run(const std::string& json) {
  rlimit file_limit{};
  getrlimit(RLIMIT_NOFILE, &file_limit);
  file_limit.rlim_cur = file_limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &file_limit);
  double raw_rate = 0, tcp_rate = 0, shared_rate = 0, without_stopped_peer = 1e9, with_stopped_peer = 1e9;
  for (int i = 0; i < 9; ++i) {
    raw_rate = std::max(raw_rate, raw_bandwidth(100));
    tcp_rate = std::max(tcp_rate, bandwidth(Transport::tcp, 100));
    shared_rate = std::max(shared_rate, bandwidth(Transport::shm, 100));
  }
  for (int i = 0; i < 9; ++i) {
    without_stopped_peer = std::min(without_stopped_peer, seconds_with_second_peer(false));
    with_stopped_peer = std::min(with_stopped_peer, seconds_with_second_peer(true));
  }
  auto fastest_us = [](Transport transport, bool polling, int rounds) {
    return std::min({one_way_us(transport, polling, rounds), one_way_us(transport, polling, rounds),
                     one_way_us(transport, polling, rounds)});
  };
  auto [hundred_us, hundred_mb] = many_connections(100);
  auto [thousand_us, thousand_mb] = many_connections(1000);
  std::vector<Row> rows = {
      {"raw socket", "GB/s", raw_rate, 0, true},
      {"TCP", "GB/s", tcp_rate, 0.9 * raw_rate, true},
      {"shared memory", "GB/s", shared_rate, 0, true},
      {"64 B one way, raw socket, sleeping", "us", raw_one_way_us(5000), 0},
      {"64 B one way, TCP, polling", "us", fastest_us(Transport::tcp, true, 5000), 25},
      {"64 B one way, TCP, sleeping", "us", fastest_us(Transport::tcp, false, 3000), 0},
      {"64 B one way, shared memory, polling", "us", fastest_us(Transport::shm, true, 20000), 2},
      {"64 B one way, shared memory, sleeping", "us", fastest_us(Transport::shm, false, 3000), 0},
      {"a peer that receives nothing: time ratio", "", with_stopped_peer / without_stopped_peer, 1.2},
      {"100 connections, a message each way", "us", hundred_us, 0},
      {"1000 connections, a message each way", "us", thousand_us, 2 * hundred_us},
      {"1000 connections, memory per connection", "MB", thousand_mb, 0.1},
  };
  double max_ratio = 0;
  std::printf("%-40s %10s %10s %7s\n", "links between two processes", "", "target", "ratio");
  for (const Row& row : rows) {
    std::printf("%-40s %10.3f ", cat(row.name, row.unit.empty() ? "" : ", ", row.unit).c_str(), row.value);
    if (row.target == 0) std::printf("%10s %7s\n", "-", "-");
    else std::printf("%10.3f %7.3f\n", row.target, row.ratio());
    max_ratio = std::max(max_ratio, row.ratio());
  }
  std::printf("link: worst ratio %.3f (target 1.000)\n", max_ratio);
  std::string text = cat("{\"name\": \"link\", \"worst\": ", max_ratio, ", \"target\": 1.0, \"rows\": [");
  for (const Row& row : rows)
    text += cat(&row == &rows[0] ? "" : ", ", "{\"name\": \"", row.name, "\", \"value\": ", row.value,
                ", \"target\": ", row.target, "}");
  write_json(json, text + "]}");
  return max_ratio <= 1.0 ? 0 : 1;
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
