// Sockets: descriptors that close themselves, and functions that create and configure sockets.
#pragma once

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

// The address of a listener: a numeric IPv4 or IPv6 address and a port, or "@name". Such a name is visible in this
// network namespace only and leaves no file.
struct Address {
  std::string host = "127.0.0.1";
  int port = 0;  // 0 lets the kernel choose
  bool is_name() const { return !host.empty() && host[0] == '@'; }
  bool operator==(const Address&) const = default;
};
std::string print(const Address& address);       // "127.0.0.1:4711", "[::1]:4711", "@name"
Address parse_address(const std::string& text);  // throws unless the text has one of these forms

// All sockets are non-blocking and closed on exec. The functions throw Error (kind peer) with the address and the
// system's reason. Any process may use a name, so the listener of a dialled name must belong to this user.
Descriptor listen_at(Address& address, int backlog);  // sets the port if it was 0
Descriptor dial(const Address& address, Seconds timeout);
Descriptor accept_at(int listener);  // empty if no connection is pending
Address local_address(int socket);   // of the local end of a connection
// Returns true if the kernel reports that this user made the other end of a named connection.
bool is_of_this_user(int socket);
// Makes TCP send without delay, and drop the connection once the peer has been unreachable for this time. Has no effect
// on other sockets.
void set_tcp_options(int socket, Seconds unreachable);
// Returns true if the kernel at the other end of a TCP connection has acknowledged data during the last `within`
// seconds. Always returns true for other sockets.
bool has_recent_tcp_ack(int socket, Seconds within);

// These functions block. They transfer the few bytes that two processes exchange before a connection runs, and throw
// Error (kind peer) if the socket is closed or the timeout expires.
void send_all(int socket, std::span<const std::byte> bytes, Seconds timeout);
void receive_all(int socket, std::span<std::byte> bytes, Seconds timeout);

}  // namespace karez::comm
