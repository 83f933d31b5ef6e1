// Sockets: descriptors that close themselves, and the few ways in which ours are made.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "karez/comm/namespace.h"

namespace karez::comm {

// Owns a descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor();
  int get() const { return value_; }
  explicit operator bool() const { return value_ >= 0; }
  void close() { Descriptor().swap(*this); }
  void swap(Descriptor& other) { std::swap(value_, other.value_); }

 private:
  int value_ = -1;
};

using Seconds = std::chrono::duration<double>;

// Where a process listens: a numeric IPv4 or IPv6 address and a port, or "@name", a name that only processes of this
// network namespace see and that leaves nothing in any folder.
struct Address {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: any; the kernel chooses
  bool is_name() const { return !host.empty() && host[0] == '@'; }
  bool operator==(const Address&) const = default;
};
std::string print(const Address& address);       // "127.0.0.1:4711", "[::1]:4711", "@name"
Address parse_address(const std::string& text);  // throws unless it is one of these

// All are non-blocking and closed on exec; TCP sends at once (no delay) and gives up an unreachable peer after
// `unreachable`. They throw Error (kind peer) with the address and the system's reason. Names belong to nobody, so one
// that is dialled must be this user's.
Descriptor listen_at(Address& address, int backlog);  // fills in the port
Descriptor dial(const Address& address, Seconds timeout);
Descriptor accept_at(int listener);  // empty: nobody waits
Address local_address(int socket);   // of a connection's own end
bool is_of_this_user(
    int socket);  // the other end of a connection by name, when it was made: the kernel says whose it was
void set_tcp_options(int socket, Seconds unreachable);  // options of a TCP connection; nothing for others
bool has_recent_tcp_ack(
    int socket,
    Seconds within);  // by the kernel at the other end of a TCP connection, for so long; others always are
std::array<Descriptor, 2> socket_pair();
std::array<Descriptor, 2> tcp_pair();  // connected over loopback

// Blocking with a limit, for the few bytes before a connection runs: throws Error (kind peer) when it ends or takes too
// long.
void send_all(int socket, std::span<const std::byte> bytes, Seconds timeout);
void receive_all(int socket, std::span<std::byte> bytes, Seconds timeout);

}  // namespace karez::comm
