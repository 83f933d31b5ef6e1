// Sockets: descriptors that close themselves, and functions that create and configure sockets.
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

// The address of a listener: a numeric IPv4 or IPv6 address and a port, or "@name", a name that is visible in this
// network namespace only and leaves no file.
struct Address {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: the kernel chooses
  bool is_name() const { return !host.empty() && host[0] == '@'; }
  bool operator==(const Address&) const = default;
};
std::string print(const Address& address);       // "127.0.0.1:4711", "[::1]:4711", "@name"
Address parse_address(const std::string& text);  // throws unless it is one of these

// All sockets are non-blocking and closed on exec; TCP sends without delay and drops a peer that is unreachable for
// `unreachable`. The functions throw Error (kind peer) with the address and the system's reason. Any process may use a
// name, so the listener of a dialled name must be this user's.
Descriptor listen_at(Address& address, int backlog);  // fills in the port
Descriptor dial(const Address& address, Seconds timeout);
Descriptor accept_at(int listener);  // empty: no connection is pending
Address local_address(int socket);   // of a connection's own end
bool is_of_this_user(int socket);    // the other end of a named connection, when it was made, as the kernel reports it
void set_tcp_options(int socket, Seconds unreachable);  // options of a TCP connection; no effect on others
bool has_recent_tcp_ack(int socket,
                        Seconds within);  // by the kernel at the other end of a TCP connection; always true for others
std::array<Descriptor, 2> socket_pair();
std::array<Descriptor, 2> tcp_pair();  // connected over loopback

// Blocking with a timeout, for the few bytes before a connection runs. They throw Error (kind peer) if the connection
// ends or the time is over.
void send_all(int socket, std::span<const std::byte> bytes, Seconds timeout);
void receive_all(int socket, std::span<std::byte> bytes, Seconds timeout);

}  // namespace karez::comm
