// Transports for tests: both ends of links, made in the same way for every transport, and child processes that run one
// end.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "karez/comm/namespace.h"
#include "karez/comm/transport/connection.h"
#include "karez/comm/transport/link.h"
#include "karez/comm/transport/socket.h"

namespace karez::comm::test {

// Two ends of one link in this process: members 0 and 1 of a communicator.
class LinkEnds {
 public:
  virtual ~LinkEnds() = default;
  virtual Endpoint& end(int member) = 0;
  Link& link(int member) { return end(member).link(1 - member); }
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::unique_ptr<LinkEnds> open(int depth) = 0;  // opens another link
};

// A transport between processes consists of two connected sockets; each side makes a wire on its socket.
struct TransportKind {
  std::string name;
  std::unique_ptr<Transport> (*make)();
  std::array<Descriptor, 2> (*sockets)() = nullptr;  // null for a transport within one process
  std::unique_ptr<Wire> (*wire)(Descriptor socket, int side) = nullptr;
  bool (*exists)() = [] { return true; };  // on this machine
};
extern const std::array<TransportKind, 5> transports;

// One process's end of a connection: a reactor, the connection, and its links.
class ConnectionEnd {
 public:
  ConnectionEnd(const TransportKind& transport, Descriptor socket, int side);
  Endpoint& open(std::uint64_t channel, int depth);  // of members 0 and 1; valid as long as this object exists
  Connection& connection() { return *connection_; }
  int side() const { return side_; }

 private:
  struct End {
    Notifier notifier;
    Endpoint endpoint;
    explicit End(int side) : endpoint(side, 2, notifier) {}
  };
  int side_;
  Reactor reactor_;
  std::unique_ptr<Connection> connection_;
  std::vector<std::unique_ptr<End>> ends_;  // after the connection, so that the links are destroyed first
};

// A process that runs `body` and exits with its result, or with 99 if it throws. Create it while this process has one
// thread.
class ChildProcess {
 public:
  explicit ChildProcess(const std::function<int()>& body);
  ~ChildProcess();  // kills the process if it still runs
  void kill();
  int wait();  // returns its exit code, or minus the signal that ended it

 private:
  int pid_ = -1;
};

// Messages of many sizes, sent both ways on several links at once. One thread serves each end and compares the messages
// with those that were sent.
struct Traffic {
  std::uint64_t seed;
  int messages;
  std::int64_t max_bytes;  // of a message
  std::int64_t size(int link, int direction, std::int64_t message) const;
  std::byte value(int link, int direction, std::int64_t message, std::int64_t i) const;
  // Serves one end: sends its messages and checks those of the other end. Returns "", or a description of the error.
  std::string serve(const std::vector<Endpoint*>& ends, int member, bool polling) const;
};

// A timeout that hardly counts the time in which this process does not run, because it is stopped or the machine is
// busy.
class TestTimeout {
 public:
  explicit TestTimeout(double seconds) : seconds_left_(seconds) {}
  bool expired();

 private:
  double seconds_left_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Calls `condition` repeatedly until it is true. Returns false after `seconds`.
bool await(const std::function<bool()>& condition, double seconds = 20);
// The time allowed for detecting a failure: enough on a busy machine, and well below the 30 seconds after which an
// unreachable peer is dropped.
inline constexpr double detection_seconds = 10;

}  // namespace karez::comm::test
