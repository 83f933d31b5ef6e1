// Implements sockets with system calls; errors contain the system's text.
#include "karez/comm/transport/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "karez/base/error.h"

namespace karez::comm {
namespace {
using Clock = std::chrono::steady_clock;

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

SocketAddress to_system(const Address& address) {
  SocketAddress out;
  if (address.is_name()) {
    auto& name = reinterpret_cast<sockaddr_un&>(out.storage);
    require(address.host.size() < sizeof name.sun_path, "address too long: ", address.host.size(),
            " characters: ", address.host);
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, address.host.data(), address.host.size());
    name.sun_path[0] = '\0';
    out.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.host.size());
    return out;
  }
  if (address.port < 0 || address.port >= 65536) fail("a port must be from 0 to 65535, got ", print(address));
  auto port = htons(static_cast<std::uint16_t>(address.port));
  auto& ipv4 = reinterpret_cast<sockaddr_in&>(out.storage);
  auto& ipv6 = reinterpret_cast<sockaddr_in6&>(out.storage);
  if (inet_pton(AF_INET, address.host.c_str(), &ipv4.sin_addr) == 1) {
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = port;
    out.size = sizeof ipv4;
  } else if (inet_pton(AF_INET6, address.host.c_str(), &ipv6.sin6_addr) == 1) {
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_port = port;
    out.size = sizeof ipv6;
  } else {
    fail("'", address.host, "' is not a numeric address such as 127.0.0.1 or ::1");
  }
  return out;
}

template <class... Parts> void require_call(bool ok, const Parts&... parts) {
  int error = errno;
  if (!ok) fail(ErrorKind::peer, parts..., ": ", std::strerror(error));
}

// Returns true if an event occurred, false at the timeout.
bool wait_for(int socket, short events, Clock::time_point until) {
  while (true) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd ready{socket, events, 0};
    int n = poll(&ready, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (n > 0) return true;
    if (n == 0) return false;
    require_call(errno == EINTR, "waiting on a socket");
  }
}

Clock::time_point deadline_after(Seconds timeout) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(timeout);
}
}  // namespace

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

Address local_address(int socket) {
  SocketAddress local;
  local.size = sizeof local.storage;
  if (getsockname(socket, local.get(), &local.size) != 0) return {"", 0};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (local.storage.ss_family == AF_INET) {
    auto& ipv4 = reinterpret_cast<sockaddr_in&>(local.storage);
    inet_ntop(AF_INET, &ipv4.sin_addr, text.data(), text.size());
    return {text.data(), ntohs(ipv4.sin_port)};
  }
  if (local.storage.ss_family == AF_INET6) {
    auto& ipv6 = reinterpret_cast<sockaddr_in6&>(local.storage);
    inet_ntop(AF_INET6, &ipv6.sin6_addr, text.data(), text.size());
    return {text.data(), ntohs(ipv6.sin6_port)};
  }
  return {"", 0};
}

bool is_of_this_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

std::string print(const Address& address) {
  if (address.is_name()) return address.host;
  return address.host.find(':') == std::string::npos ? cat(address.host, ":", address.port)
                                                     : cat("[", address.host, "]:", address.port);
}

Address parse_address(const std::string& text) {
  if (!text.empty() && text[0] == '@') return {text, 0};
  auto colon = text.rfind(':');
  Address out{text.substr(0, colon), 0};
  std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  bool digits = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  require(digits, "'", text, "' is not an address such as 127.0.0.1:4711 or [::1]:4711");
  out.port = std::stoi(port);
  if (out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']')
    out.host = out.host.substr(1, out.host.size() - 2);
  to_system(out);  // throws if the address is invalid
  return out;
}

Descriptor listen_at(Address& address, int backlog) {
  SocketAddress system_address = to_system(address);
  Descriptor out(socket(system_address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  require_call(static_cast<bool>(out), "cannot create a socket for ", print(address));
  int enabled = 1;
  if (!address.is_name()) setsockopt(out.get(), SOL_SOCKET, SO_REUSEADDR, &enabled, sizeof enabled);
  require_call(bind(out.get(), system_address.get(), system_address.size) == 0 && listen(out.get(), backlog) == 0,
               "cannot listen at ", print(address));
  if (!address.is_name()) address.port = local_address(out.get()).port;
  return out;
}

Descriptor dial(const Address& address, Seconds timeout) {
  SocketAddress system_address = to_system(address);
  auto until = deadline_after(timeout);
  while (true) {
    Descriptor out(socket(system_address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    require_call(static_cast<bool>(out), "cannot create a socket for ", print(address));
    if (connect(out.get(), system_address.get(), system_address.size) == 0) {
      if (address.is_name() && !is_of_this_user(out.get()))
        fail(ErrorKind::peer, "the listener at ", print(address), " belongs to another user");
      return out;
    }
    if (errno == EINPROGRESS) {
      if (!wait_for(out.get(), POLLOUT, until))
        fail(ErrorKind::peer, "cannot reach ", print(address), ": no answer within ", timeout.count(), " s");
      int error = 0;
      socklen_t size = sizeof error;
      getsockopt(out.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      errno = error;
      require_call(error == 0, "cannot reach ", print(address));
      return out;
    }
    // If the queue of a named listener is full, connect fails immediately instead of waiting.
    require_call(errno == EAGAIN && Clock::now() < until, "cannot reach ", print(address));
    poll(nullptr, 0, 1);
  }
}

Descriptor accept_at(int listener) {
  return Descriptor(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

void set_tcp_options(int socket, Seconds unreachable) {
  int enabled = 1, seconds = std::max(1, static_cast<int>(unreachable.count() / 4)), tries = 3;
  auto milliseconds = static_cast<unsigned>(unreachable.count() * 1000);
  if (setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &enabled, sizeof enabled) != 0) return;  // not TCP
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &enabled, sizeof enabled);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
}

bool has_recent_tcp_ack(int socket, Seconds within) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return true;  // not TCP
  return info.tcpi_last_ack_recv < within.count() * 1000;
}

void send_all(int socket, std::span<const std::byte> bytes, Seconds timeout) {
  auto until = deadline_after(timeout);
  while (!bytes.empty()) {
    auto n = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      require(ErrorKind::peer, wait_for(socket, POLLOUT, until), "the peer accepts no data");
    } else {
      require_call(errno == EINTR, "sending");
    }
  }
}

void receive_all(int socket, std::span<std::byte> bytes, Seconds timeout) {
  auto until = deadline_after(timeout);
  while (!bytes.empty()) {
    auto n = ::recv(socket, bytes.data(), bytes.size(), 0);
    require(ErrorKind::peer, n != 0, "the peer closed the connection");
    if (n > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      require(ErrorKind::peer, wait_for(socket, POLLIN, until), "the peer does not answer");
    } else {
      require_call(errno == EINTR, "receiving");
    }
  }
}

}  // namespace karez::comm
