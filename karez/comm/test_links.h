// Transports for tests: two ends of links, made in the same way for every transport, and child processes to run an end
// in.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "karez/comm/connection.h"
#include "karez/comm/link.h"
#include "karez/comm/namespace.h"
#include "karez/comm/socket.h"

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
  virtual std::unique_ptr<LinkEnds> open(int depth) = 0;  // one more link
};

// A transport between processes is two sockets and, on each, a wire made by its own side.
struct TransportKind {
  std::string name;
  std::unique_ptr<Transport> (*make)();
  std::array<Descriptor, 2> (*sockets)() = nullptr;  // null: within one process only
  std::unique_ptr<Wire> (*wire)(Descriptor socket, int side) = nullptr;
  bool (*exists)() = [] { return true; };  // on this machine
};
extern const std::array<TransportKind, 5> transports;

// One end of a connection, as a process has it: a reactor, the connection, and its links.
class ConnectionEnd {
 public:
  ConnectionEnd(const TransportKind& transport, Descriptor socket, int side);
  Endpoint& open(std::uint64_t channel, int depth);  // members 0 and 1; valid as long as this object
  Connection& connection() { return *connection_; }
  int side() const { return side_; }

 private:
  struct End {
    Notifier notifier;
    Endpoint endpoint;
    End(int side) : endpoint(side, 2, notifier) {}
  };
  int side_;
  Reactor reactor_;
  std::unique_ptr<Connection> connection_;
  std::vector<std::unique_ptr<End>> ends_;  // after the connection, so that the links are destroyed first
};

// A process that runs `body` and exits with its result, or with 99 if it threw. Create it while this process has one
// thread.
class ChildProcess {
 public:
  explicit ChildProcess(const std::function<int()>& body);
  ~ChildProcess();  // kills it if it still runs
  void kill();
  int wait();  // its exit code; minus the signal that ended it
 private:
  int pid_ = -1;
};

// Messages of all sizes both ways on several links at once, each end served by its own thread, compared with what was
// sent.
struct Traffic {
  std::uint64_t seed;
  int messages;
  std::int64_t most;  // bytes of a message
  std::int64_t size(int link, int direction, std::int64_t message) const;
  std::byte value(int link, int direction, std::int64_t message, std::int64_t i) const;
  // Serves one end: sends its messages and checks those of the other. "", or the error.
  std::string serve(const std::vector<Endpoint*>& ends, int member, bool polling) const;
};

// A timeout. Time in which this process did not run (stopped, or on a busy machine) counts little.
class TestTimeout {
 public:
  explicit TestTimeout(double seconds) : left_(seconds) {}
  bool expired();

 private:
  double left_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Calls `holds` repeatedly until it is true; false after `seconds`.
bool await(const std::function<bool()>& holds, double seconds = 20);
inline constexpr double detection_seconds = 10;  // seconds: for a busy machine, and far from the 30 of a silent peer

}  // namespace karez::comm::test
