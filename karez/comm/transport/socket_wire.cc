// Implements the socket wire with a non-blocking socket and edge-triggered events.
#include "karez/comm/transport/socket_wire.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace karez::comm {

SocketWire::SocketWire(Descriptor socket) : socket_(std::move(socket)) {}

std::int64_t SocketWire::read(const iovec* into, int parts) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(into);
  message.msg_iovlen = static_cast<std::size_t>(parts);
  while (true) {
    auto n = recvmsg(socket_.get(), &message, 0);
    if (n > 0) return n;
    if (n == 0) return -1;
    if (errno == EAGAIN) return 0;
    if (errno != EINTR) return end(errno);
  }
}

std::int64_t SocketWire::write(const iovec* from, int parts) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(from);
  message.msg_iovlen = static_cast<std::size_t>(parts);
  while (true) {
    auto n = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (n >= 0) return n;
    if (errno == EAGAIN) return 0;
    if (errno != EINTR) return end(errno);
  }
}

std::int64_t SocketWire::end(int error) {
  int expected = 0;
  error_.compare_exchange_strong(expected, error);
  return -1;
}

std::string SocketWire::reason() const {
  int error = error_.load();
  return error == 0 || error == EPIPE ? "the connection was closed" : std::strerror(error);
}

// Polling makes the kernel record that a thread waits for space.
bool SocketWire::wait_to_write() {
  pollfd writable{socket_.get(), POLLOUT, 0};
  return poll(&writable, 1, 0) == 0;
}

std::uint32_t SocketWire::events(bool reader_polls) const {
  return EPOLLOUT | EPOLLRDHUP | EPOLLET | (reader_polls ? 0u : EPOLLIN);
}

void SocketWire::finish_writing() { shutdown(socket_.get(), SHUT_WR); }

bool SocketWire::has_recent_ack(Seconds within) const { return has_recent_tcp_ack(socket_.get(), within); }

void SocketWire::shut() { shutdown(socket_.get(), SHUT_RDWR); }

}  // namespace karez::comm
