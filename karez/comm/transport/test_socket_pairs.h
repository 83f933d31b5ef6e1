// For tests and benchmarks: pairs of connected sockets.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <utility>

#include "karez/base/error.h"
#include "karez/comm/namespace.h"
#include "karez/comm/transport/socket.h"

namespace karez::comm {

inline std::array<Descriptor, 2> socket_pair() {
  int ends[2];
  require(ErrorKind::peer, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0,
          "cannot create a pair of sockets");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// Returns two ends of a TCP connection over loopback.
inline std::array<Descriptor, 2> tcp_pair() {
  Address address;
  Descriptor listener = listen_at(address, 1);
  Descriptor remote = dial(address, Seconds(5));
  pollfd ready{listener.get(), POLLIN, 0};
  if (poll(&ready, 1, 5000) != 1) fail(ErrorKind::peer, "no connection arrived at ", print(address));
  Descriptor local = accept_at(listener.get());
  if (!static_cast<bool>(local)) fail(ErrorKind::peer, "cannot accept at ", print(address));
  for (const Descriptor* socket : {&local, &remote}) set_tcp_options(socket->get(), Seconds(30));
  return {std::move(local), std::move(remote)};
}

}  // namespace karez::comm
